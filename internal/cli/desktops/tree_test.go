package desktops

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/api"
)

// TestDraw: whatever a server sends, every node is drawn once.
func TestDraw(t *testing.T) {
	at := func(n int) time.Time { return time.Unix(int64(n), 0) }
	for _, tc := range []struct {
		name  string
		nodes []api.Node
		want  []string
	}{
		{"nothing", nil, nil},
		{"older first", []api.Node{{ID: "a"}, {ID: "c", Parent: "a", Created: at(2)}, {ID: "b", Parent: "a", Created: at(1)}}, []string{"a", "├─ b", "└─ c"}},
		{"child before its parent", []api.Node{{ID: "b", Parent: "a"}, {ID: "a"}}, []string{"a", "└─ b"}},
		{"unknown parent", []api.Node{{ID: "b", Parent: "x"}, {ID: "c", Parent: "b"}}, []string{"b", "└─ c"}},
		{"ring", []api.Node{{ID: "a", Parent: "b"}, {ID: "b", Parent: "a"}}, []string{"a", "└─ b"}},
		{"of itself", []api.Node{{ID: "a", Parent: "a"}}, []string{"a"}},
		{"twice", []api.Node{{ID: "a"}, {ID: "a"}}, []string{"a"}},
		{
			"two levels",
			[]api.Node{{ID: "a"}, {ID: "b", Parent: "a"}, {ID: "c", Parent: "b"}, {ID: "d", Parent: "a", Created: at(9)}},
			[]string{"a", "├─ b", "│  └─ c", "└─ d"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, b := range draw(tc.nodes) {
				got = append(got, b.lines+b.node.ID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
