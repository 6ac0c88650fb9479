package sessions_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		stored, err := filepath.Glob(filepath.Join(w.Config.DataDir, "blobs", "outputs", "blobs", "*"))
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
	stored, err := filepath.Glob(filepath.Join(w.Config.DataDir, "blobs", "outputs", "blobs", "*"))
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
