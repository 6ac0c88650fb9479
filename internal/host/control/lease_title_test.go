package control_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestRefusal: who is refused reads who has control, and how its holder is named.
func TestRefusal(t *testing.T) {
	agent := control.Holder{Name: "token", By: "token:t", Kind: api.ControlAgent}
	for name, want := range map[string]string{"person": "a person has control", "ada": "person ada has control"} {
		var l control.Lease
		person := control.Holder{Name: name, By: "token:t", Kind: api.ControlPerson}
		if _, err := l.Request(person, time.Minute, time.Now()); err != nil {
			t.Fatal(err)
		}
		err := l.Check(agent, 0)
		problem := new(api.Error)
		if !errors.As(err, &problem) || !strings.Contains(problem.Error(), want) || !strings.Contains(problem.Hint, "--holder") {
			t.Errorf("%q: %v, want it to say %q and how to act as the holder", name, err, want)
		}
	}
}
