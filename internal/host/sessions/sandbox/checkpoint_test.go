package sandbox_test

import (
	"errors"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

func wanted(a session.Allocation, l session.Lease) session.RuntimeSeal {
	return session.RuntimeSeal{
		Tenure: a.Tenure, Lease: l, Kind: session.CheckpointProcess, WorkspaceRevision: 7, HarnessVersion: "v", RuntimeIdentity: "i",
	}
}

// TestCheckpoints: what is another's, gone, left behind or not asked for is refused,
// and nothing is left of it.
func TestCheckpoints(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	s, a := over(f), allocation(1)
	left := false
	c := &sandbox.Checkpoints{Sandbox: s, Left: func() bool { return left }}
	l := acquired(t, s, a)
	want := wanted(a, l)
	made, err := c.Create(t.Context(), want)
	if err != nil || made.Validate() != nil || made.SourceRuntimeID != l.RuntimeID || made.WorkspaceRevision != 7 || made.WorkGeneration != 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	lost, files := want, want
	lost.Lease.RuntimeID, files.Kind = "inever", session.CheckpointFilesystem
	if _, err := c.Create(t.Context(), lost); !errors.Is(err, session.ErrSandboxLost) {
		t.Errorf("another incarnation: %v", err)
	}
	if _, err := c.Create(t.Context(), files); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("another kind: %v", err)
	}
	left = true
	if _, err := c.Create(t.Context(), want); err == nil {
		t.Error("with processes left behind")
	}
	next := allocation(2)
	revived, err := c.Restore(t.Context(), next, made)
	if err != nil || revived.RuntimeID == l.RuntimeID || state(t, s, revived) != session.StateRunning {
		t.Errorf("%+v, %v", revived, err)
	}
	if again, err := c.Restore(t.Context(), next, made); err != nil || !again.Same(revived) {
		t.Errorf("a retry: %+v, %v", again, err)
	}
	machines := len(f.Provider.Machines())
	foreign, gone, other, large := made, made, allocation(3), made
	foreign.Provider, gone.CheckpointID = "another", "snone"
	other.Tenure.Scope.Session = "another"
	if _, err := c.Restore(t.Context(), allocation(3), foreign); !errors.Is(err, session.ErrForeign) {
		t.Errorf("another provider's: %v", err)
	}
	if _, err := c.Restore(t.Context(), other, made); !errors.Is(err, session.ErrForeign) {
		t.Errorf("another session's: %v", err)
	}
	if _, err := c.Restore(t.Context(), allocation(3), gone); err == nil {
		t.Error("one that is gone")
	}
	bigger := &sandbox.Checkpoints{Sandbox: sandbox.New(sandbox.Config{
		Host: f.Host, Project: hosttest.Project, Machine: api.CreateDesktop{Image: "test", Shape: "large"},
	})}
	if _, err := bigger.Restore(t.Context(), allocation(3), large); err == nil {
		t.Error("another shape")
	}
	if n := len(f.Provider.Machines()); n != machines {
		t.Errorf("%d machines, not %d", n, machines)
	}
}

// TestSweep: a holder removes what its pointer does not name, and nothing of a later
// holder or another session.
func TestSweep(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	s := over(f)
	c := &sandbox.Checkpoints{Sandbox: s}
	ids := map[int64]string{}
	for generation := int64(1); generation <= 3; generation++ {
		a := allocation(generation)
		made, err := c.Create(t.Context(), wanted(a, acquired(t, s, a)))
		if err != nil {
			t.Fatal(err)
		}
		ids[generation] = made.CheckpointID
	}
	there := func(generation int64) bool {
		_, err := f.Host.Snapshots.Get(t.Context(), hosttest.Project, ids[generation])
		return err == nil
	}
	other := allocation(3)
	other.Tenure.Scope.Session = "another"
	if err := c.Sweep(t.Context(), other.Tenure, ""); err != nil || !there(1) || !there(2) || !there(3) {
		t.Errorf("another session's sweep took some: %v", err)
	}
	if err := c.Sweep(t.Context(), allocation(2).Tenure, ids[2]); err != nil || there(1) || !there(2) || !there(3) {
		t.Errorf("%v, there are %t %t %t", err, there(1), there(2), there(3))
	}
	if err := c.Sweep(t.Context(), allocation(3).Tenure, ""); err != nil || there(2) || there(3) {
		t.Errorf("%v, there are %t %t", err, there(2), there(3))
	}
}
