package sessions_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestDaemonDiesInARun: the next daemon ends the machine, and the next run goes on
// from what was published, at once.
func TestDaemonDiesInARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.leaves(api.RunCompleted, "first", "true")
	r := w.start("wait_for never")
	w.disk(r).WriteWorkspace([]byte("worse"), place)
	w.Crash()
	w.begin()
	w.until("the machine is ended", func() error {
		if n := len(w.Provider.Machines()); n != 0 {
			return errors.New("it is there")
		}
		return nil
	})
	if last, _, _, _ := w.ended(r); last.State != api.RunLeaseLost || last.Error.Code != api.CodeGuestUnavail || last.Desktop != "" {
		t.Errorf("the run that died with it: %+v, %v", last, last.Error)
	}
	if was, last := w.leaves(api.RunCompleted, "after", "true"); was != "first" || last.Revision != 2 || last.Generation != 3 {
		t.Errorf("the next run found %q, %+v", was, last)
	}
	w.until("nothing waits to be ended", func() error {
		b, err := w.Sessions.Stores().Orphans.Backlog(t.Context())
		if err == nil && b.Total != 0 {
			err = errors.New("orphans")
		}
		return err
	})
}

// TestDaemonStopsInARun: the run is ended in order.
func TestDaemonStopsInARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start("wait_for never")
	w.disk(r)
	w.stop()
	last, _, _, _ := w.ended(r)
	if last.State != api.RunLeaseLost || last.Error.Code != api.CodeGuestUnavail {
		t.Errorf("ended %+v, %v", last, last.Error)
	}
	w.machines(0)
	if _, err := w.Desk.Start(t.Context(), hosttest.Project, api.StartRun{Workspace: "work", Image: "test", Argv: []string{"true"}}, ""); !errors.Is(err, &api.Error{Code: api.CodeGuestUnavail}) {
		t.Errorf("a run after the end: %v", err)
	}
}

// TestListIsBehind: the fence has published and the host did not get to its list;
// the next run sees to that.
func TestListIsBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.leaves(api.RunCompleted, "first", "true")
	database := filepath.Join(w.Config.DataDir, "deskfork.db")
	w.stop()
	w.Stop()
	before, err := os.ReadFile(database)
	if err != nil {
		t.Fatal(err)
	}
	w.Start()
	w.begin()
	w.leaves(api.RunCompleted, "other", "true")
	w.stop()
	w.Stop()
	if err := os.WriteFile(database, before, 0o600); err != nil { // as the file was before the second
		t.Fatal(err)
	}
	w.Start()
	w.begin()
	log, err := w.Host.Workspaces.Log(t.Context(), hosttest.Project, "work")
	if err != nil || len(log) != 1 {
		t.Fatal(log, err)
	}
	pruned, err := w.Host.Workspaces.Prune(t.Context(), api.PruneWorkspaces{Last: 1})
	if err != nil || len(pruned.Dropped) != 0 || len(pruned.Missing) != 0 {
		t.Errorf("pruned %+v, %v", pruned, err)
	}
	if was, _ := w.leaves(api.RunCompleted, "third", "true"); was != "other" {
		t.Errorf("the next run found %q", was)
	}
	if log, err := w.Host.Workspaces.Log(t.Context(), hosttest.Project, "work"); err != nil || len(log) != 3 {
		t.Errorf("the list: %+v, %v", log, err)
	}
}

// TestRetainedRun: the machine itself is kept; a run that fails leaves it as it was,
// one that ends well takes its place, and no other strategy forgets it.
func TestRetainedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	machine := keep(api.KeepMachine)
	_, first := w.leaves(api.RunCompleted, "first", "true", machine)
	kept, err := w.Host.Desktop(t.Context(), hosttest.Project, first.Desktop)
	if err != nil || kept.State != api.StateSuspended {
		t.Fatalf("kept: %+v, %v", kept, err)
	}
	if was, _ := w.leaves(api.RunFailed, "worse", "exit 1", machine); was != "first" {
		t.Errorf("the failing run found %q", was)
	}
	if last := w.run(api.RunFailed, "true"); last.Desktop != "" {
		t.Errorf("from a retained machine by checkpoint: %+v", last)
	}
	was, second := w.leaves(api.RunCompleted, "other", "true", machine)
	if was != "first" || second.Desktop == first.Desktop {
		t.Errorf("the next run found %q, %+v", was, second)
	}
	w.until("the old machine goes", func() error {
		_, err := w.Host.Desktop(t.Context(), hosttest.Project, kept.ID)
		if errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			return nil
		}
		return errors.New("it is there")
	})
	d := w.Create(api.CreateDesktop{WorkspaceMiB: 64})
	if _, err := w.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, d.ID, api.CreateCheckpoint{Workspace: "work"}, ""); !errors.Is(err, &api.Error{Code: api.CodeConflict}) {
		t.Errorf("a checkpoint by hand hides a machine: %v", err)
	}
	p, err := w.Sessions.Publications(t.Context())
	if err != nil || len(p) != 1 || p[0].Retained == nil || p[0].Validate() != nil || p[0].Retained.Provider != "desktop-vm" {
		t.Errorf("published: %+v, %v", p, err)
	}
}
