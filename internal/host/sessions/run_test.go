package sessions_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/vm"
)

func keep(k api.RunKeep) func(*api.StartRun) { return func(r *api.StartRun) { r.Keep = k } }

// TestRunFindsWhatTheLastOneLeft: a run goes on from the last one that ended well,
// and from nothing that a failed one left.
func TestRunFindsWhatTheLastOneLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if was, last := w.leaves(api.RunCompleted, "first", "true"); was != "" || last.Revision != 1 || last.ExitCode == nil || *last.ExitCode != 0 || last.Error != nil {
		t.Errorf("the first found %q, %+v", was, last)
	}
	if was, last := w.leaves(api.RunFailed, "worse", "exit 3"); was != "first" || last.ExitCode == nil || *last.ExitCode != 3 || last.Revision != 0 || last.Error.Code != api.CodePrecondition {
		t.Errorf("the failing one found %q, %+v", was, last)
	}
	if was, last := w.leaves(api.RunCompleted, "third", "true"); was != "first" || last.Revision != 2 || last.Generation != 3 {
		t.Errorf("the third found %q, %+v", was, last)
	}
	if was, _ := w.leaves(api.RunCompleted, "gone!", "true", keep(api.KeepNothing)); was != "" {
		t.Errorf("a run that keeps nothing found %q", was)
	}
	if was, _ := w.leaves(api.RunCompleted, "fifth", "true"); was != "third" {
		t.Errorf("after it: %q", was)
	}
	w.machines(0)
	log, err := w.Host.Workspaces.Log(t.Context(), hosttest.Project, "work")
	if err != nil || len(log) != 3 || log[0].Parent != log[1].Ref || log[0].Full != "" || !log[0].Frozen {
		t.Errorf("published: %+v, %v", log, err)
	}
	if all, err := w.Host.Workspaces.List(t.Context(), hosttest.Project); err != nil || len(all) != 1 || all[0].Published != log[0].Ref {
		t.Errorf("workspaces: %+v, %v", all, err)
	}
}

// TestRunTellsAll: environment, input and both outputs, in the workspace.
func TestRunTellsAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start(`cat; echo "$SECRET" >&2; pwd; kill -9 $$`, func(r *api.StartRun) {
		r.Env, r.Input = map[string]string{"SECRET": "hush"}, []byte("said\n")
	})
	last, stdout, stderr, steps := w.ended(r)
	if want := "said\n" + filepath.Join(w.dir, "workspace") + "\n"; stdout != want || stderr != "hush\n" {
		t.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
	if last.State != api.RunFailed || last.ExitCode == nil || *last.ExitCode != 137 || !strings.Contains(last.Error.Detail, "KILL") {
		t.Errorf("ended %+v, %v", last, last.Error)
	}
	if i, j := slices.Index(steps, "acquire sandbox"), slices.Index(steps, "run harness"); i < 0 || j < i || slices.Index(steps, "terminate sandbox") < j || slices.Contains(steps, "publish") {
		t.Errorf("steps %v", steps)
	}
}

// TestRunsFightForAWorkspace: one conflicts, and so does a checkpoint by hand.
func TestRunsFightForAWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.start("wait_for on")
	w.disk(first)
	second := w.run(api.RunConflict, "true")
	if second.Error.Code != api.CodeConflict || !second.Error.Retryable || second.RetryMS <= 0 || second.Desktop != "" {
		t.Errorf("the second: %+v, %v", second, second.Error)
	}
	d := w.Create(api.CreateDesktop{WorkspaceMiB: 64})
	if _, err := w.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, d.ID, api.CreateCheckpoint{Workspace: "work", Replace: true}, ""); !errors.Is(err, &api.Error{Code: api.CodeConflict}) {
		t.Errorf("a checkpoint by hand meanwhile: %v", err)
	}
	w.run(api.RunCompleted, "true", func(r *api.StartRun) { r.Workspace = "other" })
	w.sign("on")
	if last, _, _, _ := w.ended(first); last.State != api.RunCompleted {
		t.Errorf("the first: %+v", last)
	}
	w.machines(1)
}

// TestCheckpointByHandAndRuns: each goes on from what the other has published.
func TestCheckpointByHandAndRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.Create(api.CreateDesktop{WorkspaceMiB: 64})
	w.Machine(d.ID).WriteWorkspace([]byte("by hand"), place)
	if _, err := w.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, d.ID, api.CreateCheckpoint{Workspace: "work"}, ""); err != nil {
		t.Fatal(err)
	}
	if was, last := w.leaves(api.RunCompleted, "by runs", "true"); was != "by hand" || last.Revision != 2 {
		t.Errorf("the run found %q, %+v", was, last)
	}
	if _, err := w.Host.Workspaces.Checkpoint(t.Context(), hosttest.Project, d.ID, api.CreateCheckpoint{}, ""); !errors.Is(err, &api.Error{Code: api.CodeConflict}) {
		t.Errorf("what the run left is hidden: %v", err)
	}
	v := w.Create(api.CreateDesktop{Workspace: "work"})
	got := make([]byte, 7)
	w.Machine(v.ID).ReadWorkspace(got, place)
	if string(got) != "by runs" {
		t.Errorf("by hand restored: %q", got)
	}
}

// TestRunCancelled leaves nothing, and the workspace free.
func TestRunCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start("trap 'exit 0' TERM; wait_for never & wait $!")
	w.disk(r)
	if _, err := w.Desk.Cancel(hosttest.Project, r.ID); err != nil {
		t.Fatal(err)
	}
	last, _, _, _ := w.ended(r)
	if last.State != api.RunLeaseLost || last.Error.Code != api.CodeCancelled || last.Revision != 0 {
		t.Errorf("ended %+v, %v", last, last.Error)
	}
	w.machines(0)
	if last := w.run(api.RunCompleted, "true"); last.Revision != 1 {
		t.Errorf("the next: %+v", last)
	}
	if _, err := w.Desk.Get("other", r.ID); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("another project sees it: %v", err)
	}
}

// TestRunLosesItsMachine: the run says so.
func TestRunLosesItsMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start("wait_for never")
	w.disk(r).End(&vm.ExitError{Status: "signal: killed"})
	last, _, _, _ := w.ended(r)
	if last.State != api.RunFailed || last.Error.Code != api.CodeMachineFailed || last.Revision != 0 {
		t.Errorf("ended %+v, %v", last, last.Error)
	}
	w.machines(0)
}

// TestDamagedCheckpointFailsTheRun: nothing is begun from nothing.
func TestDamagedCheckpointFailsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.leaves(api.RunCompleted, "first", "true")
	log, err := w.Host.Workspaces.Log(t.Context(), hosttest.Project, "work")
	if err != nil || len(log) != 1 {
		t.Fatal(log, err)
	}
	manifest := filepath.Join(w.Config.DataDir, "blobs", "checkpoints", log[0].Ref)
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(manifest); err != nil {
		t.Fatal(err)
	}
	last := w.run(api.RunFailed, "true")
	if last.Error.Code != api.CodeImageCorrupt || last.ExitCode != nil {
		t.Errorf("without its manifest: %+v, %v", last, last.Error)
	}
	if err := os.WriteFile(manifest, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if was, _ := w.leaves(api.RunCompleted, "after", "true"); was != "first" {
		t.Errorf("put back: %q", was)
	}
}

// TestSessionIsMetered: each run is alive in the ledger, once.
func TestSessionIsMetered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.start("wait_for on")
	w.disk(r)
	if names := w.Host.Usage.Sessions().Names(); !slices.Contains(names, r.ID) {
		t.Errorf("counted: %v", names)
	}
	w.until("a second passes", func() error {
		if time.Since(r.Created) < 1500*time.Millisecond {
			return errors.New("not yet")
		}
		return nil
	})
	w.sign("on")
	w.ended(r)
	w.until("it is in the ledger", func() error {
		events, err := w.Host.Usage.Events(t.Context(), billing.Query{Project: hosttest.Project, Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, e := range events.Events {
			if e.Kind == string(billing.SessionAliveSeconds) && e.Session == "work" && e.Value >= 1 {
				found++
			}
			if e.Kind == string(billing.SandboxActiveSeconds) && e.Session != "work" {
				t.Errorf("machine of no session: %+v", e)
			}
		}
		if found != 1 {
			return errors.New("no row")
		}
		return nil
	})
	w.until("it is counted no more", func() error {
		if names := w.Host.Usage.Sessions().Names(); len(names) != 0 {
			return errors.New("still counted: " + strings.Join(names, ", "))
		}
		return nil
	})
}
