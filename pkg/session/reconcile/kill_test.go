package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/reconcile"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
	"github.com/deskfork/deskfork/pkg/session/transaction"
)

func TestKillMemory(t *testing.T) {
	t.Parallel()
	m := sessiontest.NewMemory()
	killEverywhere(t, m.Stores(), func(t *testing.T, d time.Duration) { t.Helper(); m.Advance(d) })
}

func TestKillSQLite(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "s.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	killEverywhere(t, s.Stores(), sessiontest.SQL(s.DB(), nil).Advance)
}

type profile struct {
	name string
	set  func(*session.Profile)
}

// killEverywhere lets the host die before and after each of its calls, whatever it
// calls, and another one put things in order.
func killEverywhere(t *testing.T, stores session.Stores, advance func(*testing.T, time.Duration)) {
	t.Helper()
	for _, p := range []profile{
		{"checkpoints", func(p *session.Profile) {
			p.Workspace, p.Outputs, p.RuntimeCheckpoint = session.Durable, session.OutputsDurable, session.Optional
			p.WorkspaceOrder = []session.WorkspaceStrategy{session.CheckpointRestore}
		}},
		{"retained", func(p *session.Profile) {
			p.Workspace, p.WorkspaceOrder = session.Continuable, []session.WorkspaceStrategy{session.RetainedRuntime}
		}},
	} {
		for _, answered := range []bool{false, true} {
			step := 1
			for ; kill(t, stores, advance, victim{p, step, answered}); step++ {
			}
			if step < 20 {
				t.Fatalf("%s: the run had %d steps", p.name, step)
			}
		}
	}
}

// victim says where the host dies: at a step, before or after its effect.
type victim struct {
	profile profile
	step    int
	after   bool
}

// kill is false when the run ended before the step.
func kill(t *testing.T, stores session.Stores, advance func(*testing.T, time.Duration), v victim) bool {
	t.Helper()
	name := fmt.Sprintf("%s-%d-%v", v.profile.name, v.step, v.after)
	w := world.New(stores)
	host, err := transaction.New(transaction.Config{Name: "h", Ports: transaction.Ports{
		Stores: w.Stores, Sandbox: w.Sandbox(), Workspaces: w.Workspaces(), Outputs: w.Outputs(), Harness: w.Driver(),
		RuntimeCheckpoints: w.RuntimeCheckpoints(), Egress: w.Egress(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	req := transaction.Request{Scope: session.Scope{Workspace: "ws", Environment: "env", Session: name, Work: "w"}}
	req.Profile.Egress = session.Required
	req.Profile.Driver = session.Driver{Lane: session.AMAWorker, Process: session.Process{Command: "c"}}
	v.profile.set(&req.Profile)
	run := func(want session.Outcome) session.Result {
		t.Helper()
		res, err := host.Run(t.Context(), req)
		if err != nil || res.Outcome != want {
			t.Fatalf("%s: %+v, %v\ncalls %v", name, res, err, w.Calls())
		}
		return res
	}
	run(session.Completed)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.Die(v.step, v.after, cancel)
	res, err := host.Run(ctx, req)
	host.Wait()
	if !w.Revive() {
		if err != nil || res.Outcome != session.Completed {
			t.Fatalf("%s: %+v, %v", name, res, err)
		}
		return false
	}

	advance(t, 2*time.Hour) // the lease is over
	r := reconcile.New(reconcile.Config{Stores: w.Stores, Sandbox: w.Sandbox(), Allocations: w.Sandbox()})
	for range 3 {
		if err := r.Pass(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		advance(t, time.Minute)
	}
	p, err := stores.Fences.Published(t.Context(), req.Scope)
	if err != nil || p == nil || p.Revision > 2 {
		t.Fatalf("%s: pointer %+v, %v", name, p, err)
	}
	if res.Outcome == session.Completed && p.Revision != 2 {
		t.Fatalf("%s: it said completed, and the pointer is %+v", name, p)
	}
	for _, l := range w.Machines() {
		if p.Retained == nil || !p.Retained.Same(l) {
			t.Fatalf("%s: machine %s leaks\ncalls %v", name, l.RuntimeID, w.Calls())
		}
	}
	if p.Retained != nil && w.Machine(p.Retained.RuntimeID) == nil {
		t.Fatalf("%s: the machine that the pointer names is gone", name)
	}
	if next := run(session.Completed); next.Revision != p.Revision+1 {
		t.Fatalf("%s: the next run published revision %d after %d", name, next.Revision, p.Revision)
	}
	if b, err := stores.Orphans.Backlog(t.Context()); err != nil || b.Total != 0 {
		t.Fatalf("%s: %+v, %v", name, b, err)
	}
	forget(t, stores)
	return true
}

// forget resolves what is left of the session's intents, so that the next one's
// passes are short.
func forget(t *testing.T, stores session.Stores) {
	t.Helper()
	all, _, err := stores.Intents.Abandoned(t.Context(), "", 100)
	for _, in := range all {
		err = errors.Join(err, stores.Intents.Resolve(t.Context(), in.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
}
