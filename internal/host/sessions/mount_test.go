package sessions_test

import (
	"errors"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// TestDurableMountIsRefused before anything is allocated, for every durability, and
// without a way around by another strategy that was not asked for; where others were,
// one of them is taken.
func TestDurableMountIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	req := api.StartRun{Workspace: "work", Image: "test", WorkspaceMiB: 64, Argv: []string{"true"}}
	scope := session.Scope{Workspace: hosttest.Project, Environment: "workspaces", Session: "work", Work: "w"}
	for _, d := range []session.Durability{session.Durable, session.Continuable, session.EphemeralWork} {
		res, err := w.Desk.RunBy(t.Context(), hosttest.Project, req, func(p *session.Profile) {
			p.Workspace, p.WorkspaceOrder = d, []session.WorkspaceStrategy{session.DurableMount}
		})
		if e, ok := errors.AsType[*session.CapabilityError](err); !ok || e.Part != "workspace" || res.Outcome != "" {
			t.Errorf("%s: %+v, %v", d, res, err)
		}
	}
	w.machines(0)
	claim, err := w.Sessions.Stores().Fences.Acquire(t.Context(), scope, session.NewClaimant("t"), 1<<40)
	if err != nil || claim.Fence.Generation != 1 {
		t.Errorf("a fence was taken: %+v, %v", claim, err)
	}
	if err := w.Sessions.Stores().Fences.Release(t.Context(), claim.Fence); err != nil {
		t.Error(err)
	}
	intents, _, err := w.Sessions.Stores().Intents.Abandoned(t.Context(), "", 100)
	if err != nil || len(intents) != 0 {
		t.Errorf("intents %v, %v", intents, err)
	}
	if all, err := w.Host.Workspaces.List(t.Context(), hosttest.Project); err != nil || len(all) != 0 {
		t.Errorf("workspaces %v, %v", all, err)
	}
	res, err := w.Desk.RunBy(t.Context(), hosttest.Project, req, func(p *session.Profile) { p.WorkspaceOrder = nil })
	if err != nil || res.Outcome != session.Completed {
		t.Errorf("in the order of the durability: %+v, %v", res, err)
	}
	if log, err := w.Host.Workspaces.Log(t.Context(), hosttest.Project, "work"); err != nil || len(log) != 1 {
		t.Errorf("published %v, %v", log, err)
	}
}
