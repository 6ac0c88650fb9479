package sessions

import (
	"testing"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
)

// TestIntentsOfOtherHosts are left to them: a host that does not find their machines
// would forget that there are any.
func TestIntentsOfOtherHosts(t *testing.T) {
	t.Parallel()
	stores := sessiontest.NewMemory().Stores()
	for i, owner := range []string{"one/a", "two/b", "one/c"} {
		in := session.NewIntent(session.Tenure{Scope: sessiontest.Scope("w"), Owner: owner, Generation: int64(i + 1)})
		if err := stores.Intents.Begin(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	for node, want := range map[string]int{"": 3, "one": 2, "two": 1, "tw": 0} {
		d := &Desk{cfg: Config{Stores: stores, Node: node}}
		page, _, err := d.own().Intents.Abandoned(t.Context(), "", 100)
		if err != nil || len(page) != want {
			t.Errorf("%q sees %d, want %d: %v", node, len(page), want, err)
		}
	}
}
