package sessions_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/host/sessions/input"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// upload uploads a file.
func (w *world) upload(project, text string) api.Input {
	w.t.Helper()
	in, err := w.Desk.Input(w.t.Context(), project, "", strings.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	return in
}

// with names an uploaded file.
func with(path string, in api.Input) func(*api.StartRun) {
	return func(r *api.StartRun) { r.Inputs = append(r.Inputs, api.RunInput{Path: path, ID: in.ID}) }
}

// stored lists what lies below a prefix of the store.
func (w *world) stored(pattern string) []string {
	w.t.Helper()
	all, err := filepath.Glob(filepath.Join(w.Config.DataDir, "blobs", pattern))
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// TestRunWithInputs: the command finds all of them, read-only, by whatever way they
// came; they are in no workspace, and nothing holds them afterwards.
func TestRunWithInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inputs := filepath.Join(w.dir, "inputs")
	one, two := w.upload(hosttest.Project, "one\n"), w.upload(hosttest.Project, "")
	size := int64(4)
	r := w.start("cd "+inputs+" && cat one && find . -type f | sort && stat -c %a one deep; wait_for on", with("one", one), with("deep/er/none", two),
		func(r *api.StartRun) { r.Inputs[0].Hash, r.Inputs[0].Size = one.Hash, &size })
	w.disk(r)
	if held := w.stored("inputs/holds/*/*"); len(held) != 2 {
		t.Errorf("held while it runs: %v", held)
	}
	w.sign("on")
	last, stdout, _, steps := w.ended(r)
	if want := "one\n./deep/er/none\n./one\n444\n555\n"; last.State != api.RunCompleted || stdout != want {
		t.Errorf("%+v, %v, says %q after %v", last, last.Error, stdout, steps)
	}
	if held := w.stored("inputs/holds/*/*"); len(held) != 0 {
		t.Errorf("held afterwards: %v", held)
	}
	if _, err := os.Stat(inputs); err == nil {
		t.Error("they outlive the command")
	}
	w.machines(0)
	if last := w.run(api.RunCompleted, "test ! -e "+inputs+" && test ! -e "+w.dir+"/workspace/one"); last.Revision != 2 {
		t.Errorf("the next: %+v", last)
	}
}

// TestKeptMachineHasNoInputs: what a suspended machine or a runtime checkpoint keeps is
// without them, and the next run has its own.
func TestKeptMachineHasNoInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inputs := filepath.Join(w.dir, "inputs")
	w.run(api.RunCompleted, "cat "+inputs+"/x", keep(api.KeepMachine), with("x", w.upload(hosttest.Project, "one")))
	w.run(api.RunCompleted, "test ! -e "+inputs, keep(api.KeepMachine))
	w.run(api.RunCompleted, "test \"$(ls "+inputs+")\" = y", keep(api.KeepMachine), with("y", w.upload(hosttest.Project, "two")))
}

// TestInputsThatCannotBeHad fail the run with code and stage before the command begins,
// and nothing is left.
func TestInputsThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		project, hash string
		damage        func(w *world, in api.Input)
		code          api.Code
		stored        bool // a machine was made for it
		says          string
	}{
		"another project's":  {project: "other", code: api.CodeNotFound, says: "no input"},
		"another hash":       {hash: "sha256:" + strings.Repeat("0", 64), code: api.CodePrecondition, says: "not sha256:000"},
		"swept away":         {damage: (*world).sweepAway, code: api.CodeNotFound, says: "no input"},
		"its bytes are gone": {damage: (*world).loseInput, code: api.CodeImageCorrupt, stored: true, says: "inputs/blobs/"},
		"its bytes are bad":  {damage: (*world).flipInput, code: api.CodePrecondition, stored: true, says: "it is sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tc.project == "" {
				tc.project = hosttest.Project
			}
			good, bad := w.upload(hosttest.Project, "good"), w.upload(tc.project, "bad bytes")
			if tc.damage != nil {
				tc.damage(w, bad)
			}
			r := w.start("true", with("good", good), with("dir/bad", bad), func(r *api.StartRun) { r.Inputs[1].Hash = tc.hash })
			last, _, _, steps := w.ended(r)
			if last.State != api.RunFailed || last.Error.Code != tc.code || last.Error.Stage != input.Stage || !strings.Contains(last.Error.Detail, tc.says) || !strings.Contains(last.Error.Detail, "input dir/bad:") {
				t.Errorf("%s, %+v", last.State, last.Error)
			}
			if made := strings.Contains(strings.Join(steps, ","), "acquire sandbox"); made != tc.stored {
				t.Errorf("steps %v", steps)
			}
			if _, err := os.Stat(filepath.Join(w.dir, w.said[r.ID])); err == nil {
				t.Error("the command began")
			}
			left, err := filepath.Glob(filepath.Join(w.dir, "*inputs*"))
			hidden, herr := filepath.Glob(filepath.Join(w.dir, ".*"))
			if err := errors.Join(err, herr); err != nil || len(left)+len(hidden) != 0 {
				t.Errorf("left in the machine: %v, %v, %v", left, hidden, err)
			}
			if held := w.stored("inputs/holds/*/*"); len(held) != 0 {
				t.Errorf("held: %v", held)
			}
			w.machines(0)
			w.run(api.RunCompleted, "true")
		})
	}
}

func (w *world) sweepAway(in api.Input) {
	w.t.Helper()
	err := w.Host.Workspaces.Blobs().Objects.Put(w.t.Context(), "inputs/tombs/"+in.ID+"/sweep", strings.NewReader(""), 0)
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) loseInput(in api.Input) {
	w.t.Helper()
	if err := w.Host.Workspaces.Blobs().Objects.Delete(w.t.Context(), "inputs/blobs/"+in.ID+"/content"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) flipInput(in api.Input) {
	w.t.Helper()
	name := filepath.Join(w.Config.DataDir, "blobs", "inputs", "blobs", in.ID, "content")
	if err := errors.Join(os.Chmod(name, 0o600), os.WriteFile(name, []byte("bad bytez"), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// slow is a web that begins to answer and then says nothing.
type slow struct{ asked chan struct{} }

// OpenFile implements session.InputAccess.
func (s *slow) OpenFile(ctx context.Context, r session.Resource) (io.ReadCloser, error) {
	if !strings.HasSuffix(r.URL, "/slow") {
		return io.NopCloser(strings.NewReader("of " + r.URL)), nil
	}
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestRunIsCancelledWithinItsInputs: nothing is left of it, and the workspace is free.
func TestRunIsCancelledWithinItsInputs(t *testing.T) {
	t.Parallel()
	web := &slow{make(chan struct{})}
	w := newWorld(t, func(c *sessions.Config) { c.Web = web })
	sum := sha256.Sum256([]byte("of https://h/quick"))
	fetched := func(path string) func(*api.StartRun) {
		return func(r *api.StartRun) {
			r.Inputs = append(r.Inputs, api.RunInput{Path: path, URL: "https://h/" + path, Hash: "sha256:" + hex.EncodeToString(sum[:])})
		}
	}
	w.run(api.RunCompleted, "grep -q quick "+filepath.Join(w.dir, "inputs", "quick"), fetched("quick"))
	r := w.start("true", fetched("quick"), fetched("slow"))
	<-web.asked
	if _, err := w.Desk.Cancel(hosttest.Project, r.ID); err != nil {
		t.Fatal(err)
	}
	if last, _, _, _ := w.ended(r); last.State != api.RunLeaseLost || last.Error.Code != api.CodeCancelled {
		t.Errorf("ended %+v, %v", last, last.Error)
	}
	if left, err := filepath.Glob(filepath.Join(w.dir, ".inputs*")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	w.machines(0)
	w.run(api.RunCompleted, "test ! -e "+filepath.Join(w.dir, "inputs"))
}
