package disk_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions/binding"
	"github.com/deskfork/deskfork/internal/host/sessions/disk"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// stand is the port over a host in memory, with a machine of a session.
type stand struct {
	*hosttest.Fixture

	port  *disk.Workspaces
	lease session.Lease
}

func newStand(t *testing.T) *stand {
	t.Helper()
	s := &stand{Fixture: hosttest.New(t)}
	s.port = disk.New(disk.Config{Desk: s.Host.Workspaces, Guest: s.Host.Guest, Project: hosttest.Project, Name: "work", Retains: true, Mount: t.TempDir()})
	tenure := sessiontest.Tenure(1)
	var err error
	s.lease, err = sandbox.New(sandbox.Config{Host: s.Host, Project: hosttest.Project, Machine: api.CreateDesktop{Image: "test", WorkspaceMiB: 64}}).
		Acquire(t.Context(), session.Allocation{Tenure: tenure, Name: session.NewIntent(tenure).ID})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) checkpoint(t *testing.T, strategy session.WorkspaceStrategy, key string) session.Candidate {
	t.Helper()
	c, err := s.port.Checkpoint(t.Context(), session.WorkspaceCheckpoint{
		Tenure: sessiontest.Tenure(1), Strategy: strategy, Binding: session.Binding{ID: "b"}, Lease: s.lease, Key: key,
	})
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCheckpointIsIdempotentOnItsKey, changes nothing that is published, and goes on
// from the one before.
func TestCheckpointIsIdempotentOnItsKey(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	m := s.Provider.Machines()[0]
	m.WriteWorkspace([]byte("first"), 1<<20)
	first := s.checkpoint(t, session.CheckpointRestore, "k1")
	m.WriteWorkspace([]byte("other"), 1<<20)
	if again := s.checkpoint(t, session.CheckpointRestore, "k1"); again.ID != first.ID || again.ContentHash != first.ContentHash {
		t.Errorf("again %+v, first %+v", again, first)
	}
	second := s.checkpoint(t, session.CheckpointRestore, "k2")
	if second.ID == first.ID || second.ContentHash == first.ContentHash {
		t.Errorf("second %+v", second)
	}
	if log, err := s.Host.Workspaces.Log(t.Context(), hosttest.Project, "work"); err != nil || len(log) != 0 {
		t.Errorf("published: %+v, %v", log, err)
	}
	for c, want := range map[*session.Candidate]string{&first: "first", &second: "other"} {
		b, err := s.port.Materialize(t.Context(), session.Materialization{Tenure: sessiontest.Tenure(2), Strategy: session.CheckpointRestore, Active: c, Key: "m"})
		if err != nil {
			t.Fatal(err)
		}
		d := s.Create(api.CreateDesktop{Workspace: binding.Checkpoint(b)})
		got := make([]byte, 5)
		s.Machine(d.ID).ReadWorkspace(got, 1<<20)
		if string(got) != want {
			t.Errorf("%s restored: %q, want %q", c.ID, got, want)
		}
	}
	held := func() int {
		all, err := filepath.Glob(filepath.Join(s.Config.DataDir, "blobs", "holds", first.ID, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	if held() == 0 {
		t.Error("a draft is not held")
	}
	for range 2 {
		if err := s.port.Release(t.Context(), sessiontest.Tenure(1), session.Binding{ID: "b"}); err != nil {
			t.Error(err)
		}
	}
	if held() != 0 {
		t.Error("a draft is held after its run")
	}
}

// TestMaterializeFailsClosed: what is not what the fence says is no empty workspace.
func TestMaterializeFailsClosed(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.Provider.Machines()[0].WriteWorkspace([]byte("first"), 1<<20)
	good := s.checkpoint(t, session.CheckpointRestore, "k1")
	retained := s.checkpoint(t, session.RetainedRuntime, "k2")
	forged, gone := good, good
	forged.ContentHash, gone.ID = "sha256:00", "wnone/cnone"
	for name, tc := range map[string]struct {
		strategy session.WorkspaceStrategy
		active   session.Candidate
		is       error
	}{
		"another content":    {session.CheckpointRestore, forged, workspace.ErrCorrupt},
		"missing":            {session.CheckpointRestore, gone, workspace.ErrMissing},
		"missing, retained":  {session.RetainedRuntime, gone, workspace.ErrMissing},
		"retained elsewhere": {session.CheckpointRestore, retained, nil},
		"a mount":            {session.DurableMount, good, session.ErrUnsupported},
	} {
		b, err := s.port.Materialize(t.Context(), session.Materialization{Tenure: sessiontest.Tenure(2), Strategy: tc.strategy, Active: &tc.active, Key: "m"})
		if err == nil || tc.is != nil && !errors.Is(err, tc.is) {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	marker := s.checkpoint(t, session.Ephemeral, "k3")
	for name, m := range map[string]session.Materialization{
		"ephemeral":          {Strategy: session.Ephemeral, Active: &gone},
		"nothing was kept":   {Strategy: session.CheckpointRestore, Active: &marker},
		"it is the machine":  {Strategy: session.RetainedRuntime, Active: &retained},
		"nothing before":     {Strategy: session.CheckpointRestore},
		"nothing to suspend": {Strategy: session.RetainedRuntime},
	} {
		m.Tenure, m.Key = sessiontest.Tenure(2), "m"
		if b, err := s.port.Materialize(t.Context(), m); err != nil || binding.Checkpoint(b) != "" {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
}

// TestAttachLooksIntoTheMachine, and at whose it is.
func TestAttachLooksIntoTheMachine(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	tenure := sessiontest.Tenure(1)
	if err := s.port.Attach(t.Context(), tenure, session.Binding{MountPath: t.TempDir()}, s.lease); err != nil {
		t.Error(err)
	}
	if err := s.port.Attach(t.Context(), tenure, session.Binding{MountPath: "/no/such"}, s.lease); err == nil {
		t.Error("a workspace that is not there was attached")
	}
	foreign := s.lease
	foreign.Provider = "e2b"
	if err := s.port.Attach(t.Context(), tenure, session.Binding{MountPath: "/"}, foreign); !errors.Is(err, session.ErrForeign) {
		t.Errorf("another provider's: %v", err)
	}
	all, err := s.port.Strategies(t.Context(), session.Scope{})
	if err != nil || len(all) != 3 {
		t.Errorf("strategies %v, %v", all, err)
	}
}
