package sessions_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

func withOutputs(r *api.StartRun) { r.Outputs = true }

// TestRunDeliversOutputs: to the byte, what was there at the end, and not before it
// was published.
func TestRunDeliversOutputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := filepath.Join(w.dir, "outputs")
	r := w.start("mkdir -p "+out+"/a/b; printf half > "+out+"/a/b/x; : > "+out+"/empty; wait_for more; printf whole > "+out+"/a/b/x; wait_for on", withOutputs)
	w.disk(r)
	if _, err := w.Desk.Outputs(t.Context(), hosttest.Project, r.ID); !errors.Is(err, &api.Error{Code: api.CodePrecondition}) {
		t.Errorf("seen before the end: %v", err)
	}
	all := make([]byte, 1<<20+1)
	for i := range all {
		all[i] = byte(i)
	}
	if err := os.WriteFile(filepath.Join(out, "all bytes ü"), all, 0o600); err != nil {
		t.Fatal(err)
	}
	w.sign("more")
	w.until("files are stored ahead", func() error {
		stored, err := filepath.Glob(filepath.Join(w.Config.DataDir, "blobs", "outputs", "blobs", "*", "*"))
		if err == nil && len(stored) < 2 {
			err = errors.New("not yet")
		}
		return err
	})
	w.sign("on")
	last, _, _, _ := w.ended(r)
	if last.State != api.RunCompleted || last.Outputs == nil || last.Outputs.Files != 3 || last.Outputs.Bytes != int64(len(all)+5) {
		t.Fatalf("ended %+v, %v", last, last.Error)
	}
	list, err := w.Desk.Outputs(t.Context(), hosttest.Project, r.ID)
	if err != nil || len(list.Files) != 3 || list.Files[0].Path != "a/b/x" || list.Files[2].Path != "empty" {
		t.Fatalf("listed %+v, %v", list, err)
	}
	for path, want := range map[string][]byte{"a/b/x": []byte("whole"), "all bytes ü": all, "empty": {}} {
		if got, err := w.output(r, path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	if _, err := w.output(r, "nope"); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		t.Errorf("none: %v", err)
	}
	next := w.run(api.RunCompleted, "test -z \"$(ls "+out+")\"", withOutputs)
	if next.Outputs == nil || next.Outputs.Files != 0 {
		t.Errorf("the next begins with %+v", next.Outputs)
	}
	w.damageOutputs()
	if _, err := w.output(r, "all bytes ü"); err == nil || !strings.Contains(err.Error(), "outputs/blobs/") {
		t.Errorf("damaged: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(w.Config.DataDir, "spool")); err != nil || len(left) != 0 {
		t.Errorf("left on its way: %v, %v", left, err)
	}
}

func (w *world) output(r api.Run, path string) ([]byte, error) {
	_, body, err := w.Desk.Output(w.t.Context(), hosttest.Project, r.ID, path)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// damageOutputs flips a byte of each blob.
func (w *world) damageOutputs() {
	w.t.Helper()
	stored, err := filepath.Glob(filepath.Join(w.Config.DataDir, "blobs", "outputs", "blobs", "*", "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range stored {
		b, err := os.ReadFile(name)
		if err == nil && len(b) > 0 {
			b[len(b)/2] ^= 1
			err = errors.Join(os.Chmod(name, 0o600), os.WriteFile(name, b, 0o600))
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestOutputsThatAreRefused fail the run, and the workspace stays as it was.
func TestOutputsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ line, says string }{
		"a link":     {"ln -s /etc/passwd %/x", "symlink"},
		"a pipe":     {"mkfifo %/x", "other"},
		"too large":  {"truncate -s 11G %/x", "more than"},
		"backslash":  {`touch '%/a\b'`, "relative"},
		"a fault":    {"touch %/x; exit 4", "exit status 4"},
		"a link dir": {"ln -s /etc %/x", "symlink"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			last := w.run(api.RunFailed, strings.ReplaceAll(tc.line, "%", filepath.Join(w.dir, "outputs")), withOutputs)
			if last.Outputs != nil || !strings.Contains(last.Error.Detail, tc.says) || last.Revision != 0 {
				t.Errorf("ended %+v, %v", last, last.Error)
			}
			w.machines(0)
		})
	}
}

// TestOutputsStayWithoutAny: a run that asks for none leaves those of earlier ones.
func TestOutputsStayWithoutAny(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.run(api.RunCompleted, "echo kept > "+filepath.Join(w.dir, "outputs", "x"), withOutputs)
	if last := w.run(api.RunCompleted, "true"); last.Outputs != nil {
		t.Errorf("of the second: %+v", last.Outputs)
	}
	p, err := w.Sessions.Publications(t.Context())
	if err != nil || len(p) != 1 || p[0].Output == nil || p[0].Output.ID != r.Outputs.ID {
		t.Errorf("published: %+v, %v", p, err)
	}
}

// TestPruneOfRuns: what later runs have replaced goes once it is old, is said to be
// gone, and what counts stays; uploads that no run needs go with it.
func TestPruneOfRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	out := filepath.Join(w.dir, "outputs")
	var runs []api.Run
	for _, text := range []string{"first", "second", "third"} {
		runs = append(runs, w.run(api.RunCompleted, "printf "+text+" > "+out+"/x", withOutputs))
	}
	w.run(api.RunCompleted, "true") // leaves what is published
	in := w.upload(hosttest.Project, "not used")
	prune := func(req api.PruneOutputs) api.PrunedOutputs {
		t.Helper()
		p, err := w.Desk.Prune(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := prune(api.PruneOutputs{Last: 1}); p.Kept != 3 || len(p.Dropped)+p.Inputs != 0 {
		t.Errorf("nothing is old: %+v", p)
	}
	w.ages(72 * time.Hour)
	if got, err := w.output(runs[1], "x"); err != nil || string(got) != "second" { // being read
		t.Errorf("%q, %v", got, err)
	}
	if p := prune(api.PruneOutputs{DryRun: true, Last: 1}); len(p.Dropped) != 1 || p.Inputs != 1 {
		t.Errorf("only looked: %+v", p)
	}
	if p := prune(api.PruneOutputs{Last: 1}); p.Kept != 2 || len(p.Dropped) != 1 || p.Inputs != 1 || p.Objects != 5 || len(p.Missing) != 0 {
		t.Errorf("pruned: %+v", p)
	}
	if got, err := w.output(runs[0], "x"); !errors.Is(err, &api.Error{Code: api.CodeNotFound}) || !strings.Contains(err.Error(), "removed") {
		t.Errorf("the first: %q, %v", got, err)
	}
	for i, want := range map[int]string{1: "second", 2: "third"} {
		if got, err := w.output(runs[i], "x"); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", want, got, err)
		}
	}
	last := w.run(api.RunFailed, "true", with("x", in))
	if last.Error.Code != api.CodeNotFound {
		t.Errorf("a run with what was pruned: %v", last.Error)
	}
}

// ages makes everything in the store so much older.
func (w *world) ages(by time.Duration) {
	w.t.Helper()
	err := filepath.WalkDir(filepath.Join(w.Config.DataDir, "blobs"), func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chtimes(p, time.Time{}, info.ModTime().Add(-by))
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
