package sessions_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/pkg/api"
)

// limit is how long a test waits for anything.
const limit = 2 * time.Minute

// world is a desk over a host in memory. The guests' programs are real, and run as
// the test; their disks are not.
type world struct {
	*hosttest.Fixture

	t    *testing.T
	Desk *sessions.Desk
	dir  string            // of workspace, outputs and signs
	said map[string]string // by run, the sign of its beginning
	stop func()

	change []func(*sessions.Config)
}

func newWorld(t *testing.T, change ...func(*sessions.Config)) *world {
	t.Helper()
	w := &world{Fixture: hosttest.New(t), t: t, dir: t.TempDir(), said: map[string]string{}, change: change}
	w.begin()
	return w
}

// begin starts a desk on the present host.
func (w *world) begin() { w.Desk, w.stop = w.Work(w.dir, w.change...) }

// start begins a run of a line of shell. The line can wait for signs: wait NAME.
func (w *world) start(line string, change ...func(*api.StartRun)) api.Run {
	w.t.Helper()
	began := fmt.Sprintf("began-%d", len(w.said))
	req := api.StartRun{Workspace: "work", Image: "test", WorkspaceMiB: 64, Argv: []string{
		// What is left of it ends with the test.
		"sh", "-c", "wait_for() { while test ! -e " + w.dir + "/$1; do test -d " + w.dir + " || exit; sleep 0.02; done; }; : > " + w.dir + "/" + began + "; " + line,
	}}
	for _, fn := range change {
		fn(&req)
	}
	r, err := w.Desk.Start(w.t.Context(), hosttest.Project, req, "")
	if err != nil {
		w.t.Fatal(err)
	}
	w.said[r.ID] = began
	return r
}

// sign lets a line go on that waits for it.
func (w *world) sign(name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// ended is how a run ended, and what it told.
func (w *world) ended(r api.Run) (last api.Run, stdout, stderr string, steps []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	tape, err := w.Desk.Follow(hosttest.Project, r.ID, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer tape.Close()
	for {
		e, more, err := tape.Next(ctx)
		if err != nil {
			w.t.Fatalf("run %s: %v after %v", r.ID, err, steps)
		}
		if !more {
			return last, stdout, stderr, steps
		}
		switch e.Type {
		case api.RunStdout:
			stdout += string(e.Data)
		case api.RunStderr:
			stderr += string(e.Data)
		case api.RunStep:
			steps = append(steps, e.Step)
		case api.RunEnd:
			last = *e.Run
		case api.RunLost:
			if !strings.Contains(e.Step, "when the daemon ended") {
				w.t.Errorf("run %s lost %s", r.ID, e.Step)
			}
		}
	}
}

// run runs a line to its end, which must be as wanted.
func (w *world) run(want api.RunState, line string, change ...func(*api.StartRun)) api.Run {
	w.t.Helper()
	last, _, stderr, steps := w.ended(w.start(line, change...))
	if last.State != want {
		w.t.Fatalf("the run is %s, want %s: %v, %v, %q after %v", last.State, want, last.Error, last.Warnings, stderr, steps)
	}
	return last
}

// disk waits until the command of a run runs, and gives its machine.
func (w *world) disk(r api.Run) *hosttest.Machine {
	w.t.Helper()
	var m *hosttest.Machine
	w.until("the command runs", func() error {
		if _, err := os.Stat(filepath.Join(w.dir, w.said[r.ID])); err != nil {
			return err
		}
		v, err := w.Desk.Get(hosttest.Project, r.ID)
		if err != nil {
			return err
		}
		d, err := w.Host.Desktop(w.t.Context(), hosttest.Project, v.Desktop)
		if err == nil {
			m = w.Machine(d.ID)
		}
		return err
	})
	return m
}

func (w *world) until(what string, check func() error) {
	w.t.Helper()
	for deadline := time.Now().Add(limit); ; <-time.After(5 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%s: %v", what, err)
		}
	}
}

// place is where on a disk the tests write.
const place = 1 << 20

// leaves runs a command that leaves text on the disk, and says what was there.
func (w *world) leaves(want api.RunState, text string, end string, change ...func(*api.StartRun)) (before string, last api.Run) {
	w.t.Helper()
	sign := strings.NewReplacer("/", "-", " ", "-").Replace(w.t.Name() + text)
	r := w.start("wait_for "+sign+"; "+end, change...)
	m := w.disk(r)
	got := make([]byte, len(text))
	m.ReadWorkspace(got, place)
	m.WriteWorkspace([]byte(text), place)
	w.sign(sign)
	last, _, _, steps := w.ended(r)
	if last.State != want {
		w.t.Fatalf("the run is %s, want %s: %v after %v", last.State, want, last.Error, steps)
	}
	return strings.TrimRight(string(got), "\x00"), last
}

// nothing says that no machine is left, but so many.
func (w *world) machines(want int) {
	w.t.Helper()
	if n := len(w.Provider.Machines()); n != want {
		w.t.Errorf("%d machines are left, want %d", n, want)
	}
}
