package sessions_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

func seals(need string) func(*api.StartRun) {
	return func(r *api.StartRun) { r.RuntimeCheckpoint = need }
}

// seals are the ids of the snapshots that are kept.
func (w *world) seals() []string {
	w.t.Helper()
	list, err := w.Host.Snapshots.List(w.t.Context(), hosttest.Project)
	if err != nil {
		w.t.Fatal(err)
	}
	var ids []string
	for _, s := range list {
		if s.Kind == "snapshot" {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// request is for the same command each time, which goes on when the test says so.
func (w *world) request(change ...func(*api.StartRun)) api.StartRun {
	r := api.StartRun{
		Workspace: "work", Image: "test", WorkspaceMiB: 64, Input: []byte("secret\n"), Env: map[string]string{"TOKEN": "work"},
		Argv: []string{"sh", "-c", "cat >/dev/null; : >" + w.dir + "/runs; while test ! -e " + w.dir + "/go; do sleep 0.02; done; rm " + w.dir + "/go"},
	}
	for _, fn := range change {
		fn(&r)
	}
	return r
}

// origin runs a line in a workspace to its end and tells what its desktop was made of.
func (w *world) origin(change ...func(*api.StartRun)) (snapshot string, last api.Run, steps []string) {
	w.t.Helper()
	change = append([]func(*api.StartRun){func(r *api.StartRun) { *r = w.request() }}, change...)
	r := w.start("", change...)
	w.said[r.ID] = "runs"
	w.disk(r)
	v, err := w.Desk.Get(hosttest.Project, r.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	d, err := w.Host.Desktop(w.t.Context(), hosttest.Project, v.Desktop)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(w.dir, "runs")); err != nil {
		w.t.Fatal(err)
	}
	w.sign("go")
	last, _, _, steps = w.ended(r)
	if last.State != api.RunCompleted {
		w.t.Fatalf("%+v, %v", last, last.Error)
	}
	if d.Origin == api.OriginSnapshot {
		snapshot = d.Snapshot
	}
	return snapshot, last, steps
}

// TestRunGoesOnFromARuntimeCheckpoint: of the same command, of the same image; and what
// the pointer names no more is removed.
func TestRunGoesOnFromARuntimeCheckpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if from, _, steps := w.origin(seals("required")); from != "" || !slices.Contains(steps, "create runtime checkpoint") {
		t.Errorf("the first was made of %q, %q", from, steps)
	}
	kept := w.seals()
	if len(kept) != 1 {
		t.Fatalf("kept %q", kept)
	}
	if from, last, _ := w.origin(seals("optional")); from != kept[0] || len(last.Warnings) != 0 {
		t.Errorf("the second was made of %q, not %q: %+v", from, kept, last)
	}
	next := w.seals()
	if len(next) != 1 || next[0] == kept[0] {
		t.Errorf("kept %q after %q", next, kept)
	}
	// It gets lost: the workspace is there all the same.
	if err := w.Host.Snapshots.Remove(t.Context(), hosttest.Project, next[0]); err != nil {
		t.Fatal(err)
	}
	if from, last, _ := w.origin(seals("required")); from != "" || len(last.Warnings) != 1 || !strings.Contains(last.Warnings[0], "restore runtime checkpoint") {
		t.Errorf("without it: made of %q, %+v", from, last)
	}
	if from, _, steps := w.origin(seals("optional"), func(r *api.StartRun) { r.Env["MORE"] = "x" }); from != "" || slices.Contains(steps, "restore runtime checkpoint") {
		t.Errorf("another command was begun in it: %q, %q", from, steps)
	}
	if from, _, _ := w.origin(); from != "" || len(w.seals()) != 0 {
		t.Errorf("a run without: made of %q, %q are kept", from, w.seals())
	}
	w.machines(0)
}

// TestSecretsThatStayAreNotKept: where processes of the command live on there is no
// runtime checkpoint.
func TestSecretsThatStayAreNotKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := func(r *api.StartRun) { r.Env = map[string]string{"TOKEN": "hush"} }
	line := "while test -d " + w.dir + "/workspace; do sleep 0.1; done >/dev/null 2>&1 &"
	last := w.run(api.RunCompleted, line, secret, seals("optional"))
	if len(last.Warnings) != 1 || !strings.Contains(last.Warnings[0], "live on") || len(w.seals()) != 0 {
		t.Errorf("optional: %+v, %q", last, w.seals())
	}
	if last := w.run(api.RunFailed, line, secret, seals("required")); !strings.Contains(last.Error.Detail, "live on") || last.Revision != 0 {
		t.Errorf("required: %+v, %v", last, last.Error)
	}
	w.run(api.RunFailed, "exit 1", secret, seals("required"))
	if len(w.seals()) != 0 {
		t.Errorf("kept %q", w.seals())
	}
	for _, k := range []api.RunKeep{api.KeepMachine, api.KeepNothing} {
		req := api.StartRun{Workspace: "work", Image: "test", Argv: []string{"true"}, Keep: k, RuntimeCheckpoint: "optional"}
		if _, err := w.Desk.Start(t.Context(), hosttest.Project, req, ""); err == nil {
			t.Errorf("with keep %s", k)
		}
	}
}
