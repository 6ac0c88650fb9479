package archive_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/archive"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/tree"
)

// world is desktops whose guests are this machine, each with a directory for its
// /workspace, and a store that keeps such directories by name.
type world struct {
	t    *testing.T
	path string // directory of programs that come before the machine's

	mu       sync.Mutex
	stored   map[string]string // W@REF → directory
	desktops map[string]string // id → directory
	specs    []api.CreateDesktop
	startErr error
}

func newWorld(t *testing.T) (*world, *archive.Desk) {
	t.Helper()
	w := &world{t: t, path: t.TempDir(), stored: map[string]string{}, desktops: map[string]string{}}
	// Tests are not root: what only that one may do is left out.
	w.program("tar", `for a; do shift; case $a in --same-owner) ;; *) set -- "$@" "$a" ;; esac; done; exec /usr/bin/tar "$@"`)
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.desktops) > 0 {
			t.Errorf("desktops are left: %v", w.desktops)
		}
	})
	return w, &archive.Desk{Desktops: w, Workspaces: w, Logger: slog.New(slog.DiscardHandler)}
}

func (w *world) program(name, script string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.path, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// put keeps what a script makes under a name.
func (w *world) put(name, script string) {
	w.t.Helper()
	dir := w.t.TempDir()
	cmd := exec.CommandContext(w.t.Context(), "sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	w.stored[name+"@"+name+"/c1"] = dir
}

func (w *world) Create(_ context.Context, _ string, req api.CreateDesktop, _ string) (api.Desktop, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.specs = append(w.specs, req)
	dir := w.t.TempDir()
	if req.Workspace != "" {
		dir = w.stored[req.Workspace]
	}
	id := fmt.Sprintf("d%d", len(w.specs))
	w.desktops[id] = dir
	return api.Desktop{ID: id, Name: req.Name}, nil
}

func (w *world) Wait(context.Context, string, string, api.Stage) (api.Desktop, error) {
	return api.Desktop{}, w.startErr
}

func (w *world) Delete(ctx context.Context, _, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.desktops, id)
	return ctx.Err()
}

func (w *world) Guest(_ context.Context, _, id string) (*live.Desktop, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return &live.Desktop{Execs: &execs{w: w, dir: w.desktops[id]}}, nil
}

func (w *world) Manifest(_ context.Context, _, word string) (*workspace.Manifest, error) {
	m := &workspace.Manifest{Ref: workspace.Ref{Workspace: workspace.ID(word), Checkpoint: "c1"}, Size: int64(len(word)) << 20}
	if _, ok := w.stored[word+"@"+m.String()]; !ok {
		return nil, api.Errorf(api.CodeNotFound, "no workspace %q", word)
	}
	return m, nil
}

func (w *world) Vacant(_ context.Context, _, name string) error {
	if w.stored[name+"@"+name+"/c1"] != "" {
		return api.Errorf(api.CodeConflict, "workspace %s is at a checkpoint", name)
	}
	return nil
}

func (w *world) Checkpoint(_ context.Context, _, id string, req api.CreateCheckpoint, _ string) (api.Checkpoint, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stored[req.Workspace+"@"+req.Workspace+"/c1"] = w.desktops[id]
	return api.Checkpoint{Ref: req.Workspace + "/c1", Workspace: req.Workspace}, nil
}

// execs runs programs here.
type execs struct {
	live.Execs

	w    *world
	dir  string
	spec guest.ExecSpec
}

func (x *execs) command(ctx context.Context, spec guest.ExecSpec) *exec.Cmd {
	if spec.User != "root" || !spec.KillOnDetach {
		x.w.t.Errorf("started as %+v", spec)
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(spec.Shell, "/workspace", x.dir))
	cmd.Env = append(os.Environ(), "PATH="+x.w.path+":"+os.Getenv("PATH"))
	return cmd
}

func (x *execs) Run(ctx context.Context, spec guest.ExecSpec, stdin io.Reader) (live.Ran, error) {
	in := &failing{r: stdin}
	cmd := x.command(ctx, spec)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stderr = in, &out
	err := cmd.Run()
	if in.err != nil {
		return live.Ran{}, in.err
	}
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	return live.Ran{Status: guest.ExecStatus{ExitCode: cmd.ProcessState.ExitCode()}, Stderr: out.Bytes()}, err
}

// failing remembers why its reader failed.
type failing struct {
	r   io.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}

func (x *execs) Start(_ context.Context, spec guest.ExecSpec) (guest.ExecStatus, error) {
	x.spec = spec
	return guest.ExecStatus{ID: spec.ID}, nil
}

func (x *execs) Attach(ctx context.Context, p guest.ExecAttachParams) (live.Attachment, error) {
	if p.ID != x.spec.ID {
		return nil, errors.New("another program")
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a := &attached{cmd: x.command(ctx, x.spec), cancel: cancel}
	var err [3]error
	a.in, err[0] = a.cmd.StdinPipe()
	a.out, err[1] = a.cmd.StdoutPipe()
	a.err, err[2] = a.cmd.StderrPipe()
	return a, errors.Join(errors.Join(err[:]...), a.cmd.Start())
}

type attached struct {
	live.Attachment

	cmd      *exec.Cmd
	cancel   context.CancelFunc
	in       io.WriteCloser
	out, err io.Reader
}

func (a *attached) Stdin() io.WriteCloser { return a.in }
func (a *attached) Stdout() io.Reader     { return a.out }
func (a *attached) Stderr() io.Reader     { return a.err }
func (a *attached) Close() error          { a.cancel(); return nil }

func (a *attached) Wait(context.Context) (guest.ExecStatus, error) {
	_ = a.cmd.Wait()
	return guest.ExecStatus{ExitCode: a.cmd.ProcessState.ExitCode()}, nil
}

const project = "default"

const someFiles = `umask 022; mkdir a; echo text >a/plain; chmod 2751 a/plain; touch -d '2001-02-03 04:05:06.123456789' a/plain
ln -s plain a/link; ln a/plain a/hard; mkfifo a/pipe; mkdir lost+found; chmod 700 lost+found
truncate -s 30M a/sparse; printf end | dd of=a/sparse bs=1 seek=20000000 conv=notrunc status=none`

func TestThereAndBack(t *testing.T) {
	w, d := newWorld(t)
	w.put("one", someFiles)
	var first bytes.Buffer
	if err := d.Export(t.Context(), project, "one", "img", &first); err != nil {
		t.Fatal(err)
	}
	if first.Len() > 1<<20 {
		t.Errorf("%d bytes: holes are written out", first.Len())
	}
	made, err := d.Import(t.Context(), project, "two", api.ImportWorkspace{Image: "img", SizeMiB: 64}, bytes.NewReader(first.Bytes()))
	if err != nil || made.Workspace != "two" {
		t.Fatalf("%+v, %v", made, err)
	}
	var second bytes.Buffer
	if err := d.Export(t.Context(), project, "two", "img", &second); err != nil {
		t.Fatal(err)
	}
	err = tree.Diff(tree.NewReader(t.Context(), bytes.NewReader(first.Bytes())), tree.NewReader(t.Context(), &second), func(c tree.Change) error {
		t.Errorf("what came back is not the same: %+v, %+v: %v", c.Before, c.After, c.Fields)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for in := tar.NewReader(&first); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || strings.Contains(h.Name, "lost+found") {
			t.Fatalf("%+v, %v", h, err)
		}
	}
	for _, s := range w.specs {
		if s.Network != "none" || s.Image != "img" || s.Labels[archive.Label] == "" || s.TTLS == 0 {
			t.Errorf("throw-away desktop %+v", s)
		}
	}
	if s := w.specs[0]; s.Workspace != "one@one/c1" {
		t.Errorf("exported %q", s.Workspace)
	}
	if s := w.specs[1]; s.Workspace != "" || s.WorkspaceMiB != 64 {
		t.Errorf("imported into %+v", s)
	}
}

func TestDiff(t *testing.T) {
	const past = "; find . -exec touch -h -d 2020-01-01 {} +"
	w, d := newWorld(t)
	w.put("before", someFiles+"; echo x >gone"+past)
	w.put("after", someFiles+"; echo new >a/b; chmod 700 a/hard; printf y | dd of=a/sparse conv=notrunc status=none"+past)
	var got []string
	diff := func(before, after string) error {
		got = nil
		return d.Diff(t.Context(), project, archive.Comparison{Before: before, After: after, Image: "img"}, func(f api.FileDifference) error {
			got = append(got, fmt.Sprint(f.Change, " ", f.Path, " ", f.Kind, " ", strings.Join(f.Fields, ",")))
			return nil
		})
	}
	if err := diff("before", "after"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"added a/b file ", "changed a/hard file mode", "changed a/plain hardlink mode", "changed a/sparse file content", "removed gone file ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	made := len(w.specs)
	if err := diff("before", "before"); err != nil || len(got) != 0 || len(w.specs) != made {
		t.Errorf("with itself: %v, %v, %d desktops", got, err, len(w.specs)-made)
	}
}

// TestNothingIsLeft: whatever goes wrong is said, publishes nothing and leaves no
// desktop behind, which the world looks after.
func TestNothingIsLeft(t *testing.T) {
	full := errors.New("full")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		name string
		code api.Code // empty: another error
		word string
		do   func(w *world, d *archive.Desk) error
	}{
		{"nobody's", api.CodeNotFound, "none", func(_ *world, d *archive.Desk) error {
			return d.Export(t.Context(), project, "none", "img", io.Discard)
		}},
		{"no desktop", api.CodeGuestFailed, "no link", func(w *world, d *archive.Desk) error {
			w.startErr = api.Errorf(api.CodeGuestFailed, "no link")
			return d.Export(t.Context(), project, "one", "img", io.Discard)
		}},
		{"no tar", api.CodeUnsupported, "GNU tar", func(w *world, d *archive.Desk) error {
			w.program("tar", "echo tar: not found >&2; exit 127")
			return d.Export(t.Context(), project, "one", "img", io.Discard)
		}},
		{"a reader that fails", "", "full", func(_ *world, d *archive.Desk) error {
			return d.Export(t.Context(), project, "one", "img", writer{full})
		}},
		{"nobody waits", api.CodeCancelled, "", func(_ *world, d *archive.Desk) error {
			return d.Export(ctx, project, "one", "img", io.Discard)
		}},
		{"differences that nobody takes", "", "full", func(_ *world, d *archive.Desk) error {
			return d.Diff(t.Context(), project, archive.Comparison{Before: "one", After: "other"}, func(api.FileDifference) error { return full })
		}},
		{"no tar to compare", api.CodeGuestFailed, "status 3", func(w *world, d *archive.Desk) error {
			w.program("tar", "/usr/bin/tar -cf - -C / etc/passwd; exit 3")
			return d.Diff(t.Context(), project, archive.Comparison{Before: "one", After: "other"}, func(api.FileDifference) error { return nil })
		}},
		{"what is no tar", api.CodeInvalid, "not compressed", func(_ *world, d *archive.Desk) error {
			_, err := d.Import(t.Context(), project, "new", api.ImportWorkspace{}, strings.NewReader(strings.Repeat("x", 4096)))
			return err
		}},
		{"nothing", api.CodeInvalid, "not compressed", func(_ *world, d *archive.Desk) error {
			_, err := d.Import(t.Context(), project, "new", api.ImportWorkspace{}, strings.NewReader(""))
			return err
		}},
		{"a disk that is full", api.CodeNoSpace, "larger disk", func(w *world, d *archive.Desk) error {
			w.program("tar", "cat >/dev/null; echo 'tar: x: Cannot write: No space left on device' >&2; exit 2")
			_, err := d.Import(t.Context(), project, "new", api.ImportWorkspace{}, strings.NewReader(""))
			return err
		}},
		{"half a tar", "", "gone", func(_ *world, d *archive.Desk) error {
			_, err := d.Import(t.Context(), project, "new", api.ImportWorkspace{}, io.MultiReader(bytes.NewReader(make([]byte, 512)), reader{errors.New("gone")}))
			return err
		}},
		{"over what is there", api.CodeConflict, "one", func(_ *world, d *archive.Desk) error {
			_, err := d.Import(t.Context(), project, "one", api.ImportWorkspace{}, strings.NewReader(""))
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, d := newWorld(t)
			w.put("one", someFiles)
			w.put("other", "touch x")
			err := tc.do(w, d)
			e := fault.From(err)
			if e == nil || tc.code != "" && e.Code != tc.code || !strings.Contains(e.Detail+e.Hint, tc.word) {
				t.Errorf("got %+v, want %s and %q", e, tc.code, tc.word)
			}
			if w.stored["new@new/c1"] != "" {
				t.Error("it was published")
			}
		})
	}
}

type writer struct{ err error }

func (w writer) Write([]byte) (int, error) { return 0, w.err }

type reader struct{ err error }

func (r reader) Read([]byte) (int, error) { return 0, r.err }
