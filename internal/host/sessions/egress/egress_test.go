package egress_test

import (
	"errors"
	"testing"

	"github.com/deskfork/deskfork/internal/host/sessions/egress"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/plan"
)

// TestEgressIsUnsupported: what requires it is refused before anything is allocated,
// and what would like it does without.
func TestEgressIsUnsupported(t *testing.T) {
	t.Parallel()
	var port session.CredentialEgress = egress.None{}
	says, err := port.Capabilities(t.Context(), session.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	ask := plan.Request{
		Egress: &says,
		Live:   session.Capabilities{Workspace: []session.WorkspaceStrategy{session.Ephemeral}, Harness: []session.Lane{session.AMAWorker}},
		Profile: session.Profile{
			Workspace: session.EphemeralWork, Egress: session.Required,
			Driver: session.Driver{Lane: session.AMAWorker, Process: session.Process{Command: "true"}},
		},
	}
	if _, err := plan.Resolve(ask); err == nil {
		t.Error("required egress was planned")
	}
	ask.Profile.Egress = session.Optional
	if p, err := plan.Resolve(ask); err != nil || p.Egress != session.Disabled {
		t.Errorf("optional: %+v, %v", p, err)
	}
	if _, err := port.Prepare(t.Context(), session.EgressPreparation{Need: session.Required}); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("prepared: %v", err)
	}
	if b, err := port.Prepare(t.Context(), session.EgressPreparation{Need: session.Optional}); b != nil || err != nil {
		t.Errorf("a best effort gave %v, %v", b, err)
	}
}
