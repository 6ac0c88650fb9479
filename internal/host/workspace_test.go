package host_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/archive"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

func checkpointed(t *testing.T, f *hosttest.Fixture, desktop string, req api.CreateCheckpoint) api.Checkpoint {
	t.Helper()
	c, err := f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, desktop, req, "")
	if err != nil {
		t.Fatalf("checkpoint: %v", err)
	}
	return c
}

func refused(t *testing.T, err error, code api.Code, word string) {
	t.Helper()
	if e := fault.From(err); e == nil || e.Code != code || !strings.Contains(e.Detail+e.Hint, word) {
		t.Errorf("got %+v, want %s and %q", e, code, word)
	}
}

func TestWorkspaceOutlivesItsDesktop(t *testing.T) {
	f := hosttest.New(t)
	v := f.Create(api.CreateDesktop{Name: "one", WorkspaceMiB: 64})
	m := f.Machine(v.ID)
	m.WriteWorkspace([]byte("first"), 1<<20)
	if _, err := f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, v.ID, api.CreateCheckpoint{}, ""); err == nil {
		t.Error("a checkpoint in no workspace")
	}
	first := checkpointed(t, f, v.ID, api.CreateCheckpoint{Workspace: "work"})
	if !first.Frozen || first.Full == "" || first.Parent != "" || m.Guest.Kernel.State().Frozen {
		t.Errorf("first %+v", first)
	}
	random := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	m.WriteWorkspace(random, 8<<20)
	second := checkpointed(t, f, v.ID, api.CreateCheckpoint{})
	if second.Full != "" || second.Parent != first.Ref || second.Used <= first.Used {
		t.Errorf("second %+v", second)
	}
	m.WriteWorkspace([]byte("lost"), 1<<20)
	f.Host.Delete(t.Context(), hosttest.Project, v.ID) //nolint:errcheck // the workspace is what is looked at
	f.Stop()
	f.Start()
	for word, want := range map[string]string{"work": "first", "work@" + first.Ref: "first"} {
		d := f.Create(api.CreateDesktop{Workspace: word})
		got := make([]byte, 5)
		r := f.Machine(d.ID)
		r.ReadWorkspace(got, 1<<20)
		if string(got) != want || d.WorkspaceMiB != 64 {
			t.Errorf("restored %s: %q, %d MiB", word, got, d.WorkspaceMiB)
		}
		r.WriteWorkspace([]byte("third"), 1<<20)
		if word == "work" {
			third := checkpointed(t, f, d.ID, api.CreateCheckpoint{})
			if third.Full != "" || third.Parent != second.Ref {
				t.Errorf("first one of a restored desktop %+v", third)
			}
		}
	}
	f.Stop() // who started a desktop may not have put its tools away when it is ready
	left, err := os.ReadDir(filepath.Join(f.Config.DataDir, "restore"))
	if err != nil || len(left) != 0 {
		t.Errorf("rebuilt disks are left: %v, %v", left, err)
	}
	f.Start()
	log, err := f.Host.Workspaces.Log(t.Context(), hosttest.Project, "work")
	if err != nil || len(log) != 3 {
		t.Errorf("log %+v, %v", log, err)
	}
}

// TestNoWorkIsHidden: what a desktop does not go on from is not published over.
func TestNoWorkIsHidden(t *testing.T) {
	f := hosttest.New(t)
	one, two := f.Create(api.CreateDesktop{WorkspaceMiB: 64}), f.Create(api.CreateDesktop{WorkspaceMiB: 64})
	first := checkpointed(t, f, one.ID, api.CreateCheckpoint{Workspace: "work"})
	_, err := f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, two.ID, api.CreateCheckpoint{Workspace: "work"}, "")
	refused(t, err, api.CodeConflict, first.Ref)
	over := checkpointed(t, f, two.ID, api.CreateCheckpoint{Workspace: "work", Replace: true})
	_, err = f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, one.ID, api.CreateCheckpoint{}, "")
	refused(t, err, api.CodeConflict, over.Ref)
	w, err := f.Host.Workspaces.Clone(t.Context(), hosttest.Project, "work", api.CloneWorkspace{Name: "copy", Checkpoint: first.Ref})
	if err != nil || w.Published != first.Ref {
		t.Fatalf("clone %+v, %v", w, err)
	}
	if c := checkpointed(t, f, one.ID, api.CreateCheckpoint{Workspace: "copy"}); c.Parent != first.Ref || c.Full != "" {
		t.Errorf("the clone goes on with %+v", c)
	}
	pruned, err := f.Host.Workspaces.Prune(t.Context(), api.PruneWorkspaces{Last: 1})
	if err != nil || len(pruned.Missing) != 0 {
		t.Errorf("pruned %+v, %v", pruned, err)
	}
	for _, name := range []string{"work", "copy"} {
		if r, err := f.Host.Workspaces.Verify(t.Context(), hosttest.Project, name); err != nil || !r.OK {
			t.Errorf("%s after a prune: %+v, %v", name, r, err)
		}
	}
}

// TestDamagedWorkspaceFailsClosed flips a byte of a pack, and takes a manifest.
func TestDamagedWorkspaceFailsClosed(t *testing.T) {
	f := hosttest.New(t)
	v := f.Create(api.CreateDesktop{WorkspaceMiB: 64})
	c := checkpointed(t, f, v.ID, api.CreateCheckpoint{Workspace: "work"})
	packs, err := filepath.Glob(filepath.Join(f.Config.DataDir, "blobs", "packs", c.Ref, "*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
	}
	b, err := os.ReadFile(packs[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := errors.Join(os.Chmod(packs[0], 0o600), os.WriteFile(packs[0], b, 0o600)); err != nil {
		t.Fatal(err)
	}
	if r, err := f.Host.Workspaces.Verify(t.Context(), hosttest.Project, "work"); err != nil || r.OK || len(r.Damaged) != 1 || !strings.Contains(r.Damaged[0], filepath.Base(packs[0])) {
		t.Errorf("verify %+v, %v", r, err)
	}
	machines := len(f.Provider.Machines())
	d, err := f.Host.Create(t.Context(), hosttest.Project, api.CreateDesktop{Image: "test", Workspace: "work"}, "")
	if err == nil {
		_, err = f.Host.Wait(t.Context(), hosttest.Project, d.ID, api.StageDrawn)
	}
	refused(t, err, api.CodeImageCorrupt, filepath.Base(packs[0]))
	if n := len(f.Provider.Machines()); n != machines {
		t.Errorf("a machine was made: %d, %d before", n, machines)
	}
	if err := os.RemoveAll(filepath.Join(f.Config.DataDir, "blobs", "checkpoints", c.Ref)); err != nil {
		t.Fatal(err)
	}
	_, err = f.Host.Create(t.Context(), hosttest.Project, api.CreateDesktop{Image: "test", Workspace: "work"}, "")
	refused(t, err, api.CodeImageCorrupt, "checkpoints/"+c.Ref)
	// What it has is still there to be kept: all of it, in another workspace.
	if c := checkpointed(t, f, v.ID, api.CreateCheckpoint{Workspace: "rescued"}); !strings.Contains(c.Full, "missing") {
		t.Errorf("rescued as %+v", c)
	}
}

// TestFrozenNoLonger: a guest that cannot be reached in time is not left frozen,
// and what is not one instant is not published.
func TestFrozenNoLonger(t *testing.T) {
	f := hosttest.New(t)
	v := f.Create(api.CreateDesktop{WorkspaceMiB: 64})
	m := f.Machine(v.ID)
	m.Guest.Kernel.Fail(errors.New("cannot now"))
	if _, err := f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, v.ID, api.CreateCheckpoint{Workspace: "work"}, ""); err == nil {
		t.Error("a checkpoint of a guest that did not freeze")
	}
	m.Guest.Kernel.Fail(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Host.Workspaces.Checkpoint(ctx, hosttest.Project, v.ID, api.CreateCheckpoint{Workspace: "work"}, ""); err == nil || m.Guest.Kernel.State().Frozen {
		t.Errorf("a checkpoint that nobody waits for: %v", err)
	}
	checkpointed(t, f, v.ID, api.CreateCheckpoint{Workspace: "work"})
	var _ vm.Viewer = f.Provider
}

// TestForkBeginsItsOwnLine: a fork goes on from its parent's checkpoint, which
// makes its own cheap, and never publishes over the parent's line by itself.
func TestForkBeginsItsOwnLine(t *testing.T) {
	f := hosttest.New(t)
	parent := f.Create(api.CreateDesktop{WorkspaceMiB: 64})
	f.Machine(parent.ID).WriteWorkspace(bytes.Repeat([]byte("before"), 1<<16), 1<<20)
	first := checkpointed(t, f, parent.ID, api.CreateCheckpoint{Workspace: "work"})
	children, err := f.Host.Fork(t.Context(), hosttest.Project, parent.ID, api.Fork{Count: 2}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range children {
		if _, err := f.Host.Wait(t.Context(), hosttest.Project, c.ID, api.StageDrawn); err != nil {
			t.Fatal(err)
		}
		_, err := f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, c.ID, api.CreateCheckpoint{}, "")
		refused(t, err, api.CodeInvalid, first.Ref)
	}
	one, two := children[0].ID, children[1].ID
	f.Machine(one).WriteWorkspace([]byte("child"), 4<<20)
	own := checkpointed(t, f, one, api.CreateCheckpoint{Workspace: "attempt"})
	if own.Parent != first.Ref || own.Full != "" {
		t.Errorf("the first one of a fork %+v", own)
	}
	if next := checkpointed(t, f, one, api.CreateCheckpoint{}); next.Workspace != "attempt" || next.Parent != own.Ref {
		t.Errorf("the second one of a fork %+v", next)
	}
	second := checkpointed(t, f, parent.ID, api.CreateCheckpoint{})
	if second.Parent != first.Ref || second.Workspace != "work" {
		t.Errorf("the parent goes on with %+v", second)
	}
	_, err = f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, two, api.CreateCheckpoint{Workspace: "work"}, "")
	refused(t, err, api.CodeConflict, second.Ref)
	if over := checkpointed(t, f, two, api.CreateCheckpoint{Workspace: "work", Replace: true}); over.Parent != first.Ref {
		t.Errorf("a fork that was told to replace %+v", over)
	}
	_, err = f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, parent.ID, api.CreateCheckpoint{}, "")
	refused(t, err, api.CodeConflict, "replace")
}

// TestInstantGoesOnFromItsCheckpoint: what was put back, or made of a snapshot,
// does not claim to hold what was published after that.
func TestInstantGoesOnFromItsCheckpoint(t *testing.T) {
	f := hosttest.New(t)
	v := f.Create(api.CreateDesktop{Name: "one", WorkspaceMiB: 64})
	bare, err := f.Host.Snapshots.Create(t.Context(), hosttest.Project, v.ID, api.CreateSnapshot{Name: "bare"}, "")
	if err != nil {
		t.Fatal(err)
	}
	first := checkpointed(t, f, v.ID, api.CreateCheckpoint{Workspace: "work"})
	if _, err := f.Host.Snapshots.Create(t.Context(), hosttest.Project, v.ID, api.CreateSnapshot{Name: "then"}, ""); err != nil {
		t.Fatal(err)
	}
	second := checkpointed(t, f, v.ID, api.CreateCheckpoint{})
	made := f.Create(api.CreateDesktop{Snapshot: "then"})
	_, err = f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, made.ID, api.CreateCheckpoint{}, "")
	refused(t, err, api.CodeInvalid, first.Ref)
	if _, err := f.Host.Power.Suspend(t.Context(), hosttest.Project, v.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Host.Power.Resume(t.Context(), hosttest.Project, v.ID); err != nil {
		t.Fatal(err)
	}
	third := checkpointed(t, f, v.ID, api.CreateCheckpoint{})
	if third.Parent != second.Ref {
		t.Errorf("after a suspension %+v", third)
	}
	if _, err := f.Host.Power.Restore(t.Context(), hosttest.Project, v.ID, api.Restore{Snapshot: "then"}); err != nil {
		t.Fatal(err)
	}
	_, err = f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, v.ID, api.CreateCheckpoint{}, "")
	refused(t, err, api.CodeConflict, third.Ref)
	if c := checkpointed(t, f, v.ID, api.CreateCheckpoint{Replace: true}); c.Parent != first.Ref || c.Workspace != "work" {
		t.Errorf("put back, and told to replace %+v", c)
	}
	if _, err := f.Host.Power.Restore(t.Context(), hosttest.Project, v.ID, api.Restore{Snapshot: bare.ID}); err != nil {
		t.Fatal(err)
	}
	_, err = f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, v.ID, api.CreateCheckpoint{}, "")
	refused(t, err, api.CodeInvalid, "name one")
}

// TestCheckpointOnce: a key answers what it has made, also when the desktop is
// gone; with another request it is refused.
func TestCheckpointOnce(t *testing.T) {
	f := hosttest.New(t)
	v := f.Create(api.CreateDesktop{Name: "one", WorkspaceMiB: 64})
	take := func(req api.CreateCheckpoint) (api.Checkpoint, error) {
		return f.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, "one", req, "key")
	}
	f.Machine(v.ID).Guest.Kernel.Fail(errors.New("cannot now"))
	if _, err := take(api.CreateCheckpoint{Workspace: "work"}); err == nil {
		t.Fatal("a checkpoint of a guest that did not freeze")
	}
	f.Machine(v.ID).Guest.Kernel.Fail(nil)
	var all [4]api.Checkpoint
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() {
			var err error
			if all[i], err = take(api.CreateCheckpoint{Workspace: "work"}); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if err := f.Host.Delete(t.Context(), hosttest.Project, v.ID); err != nil {
		t.Fatal(err)
	}
	last, err := take(api.CreateCheckpoint{Workspace: "work"})
	for _, c := range all {
		if c != last || c.Ref == "" {
			t.Errorf("%+v, then %+v, %v", c, last, err)
		}
	}
	log, err := f.Host.Workspaces.Log(t.Context(), hosttest.Project, "work")
	if err != nil || len(log) != 1 {
		t.Errorf("log %+v, %v", log, err)
	}
	_, err = take(api.CreateCheckpoint{Workspace: "other"})
	refused(t, err, api.CodeConflict, "Idempotency-Key")
}

// TestThrowAwayDesktopGoesAtStart: its call has ended with the run before.
func TestThrowAwayDesktopGoesAtStart(t *testing.T) {
	f := hosttest.New(t)
	f.Create(api.CreateDesktop{Name: "export", Labels: map[string]string{archive.Label: "export"}})
	stays := f.Create(api.CreateDesktop{Name: "stays"})
	f.Stop()
	f.Start()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for len(f.Provider.Machines()) > 1 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("its machine is still there")
		}
	}
	if _, err := f.Host.Desktop(ctx, hosttest.Project, stays.ID); err != nil {
		t.Error(err)
	}
	if f.Machine(stays.ID) == nil {
		t.Error("another one went")
	}
}
