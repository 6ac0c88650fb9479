package harness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions/harness"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/supervisor"
	"github.com/deskfork/deskfork/pkg/session/supervisor/guest"
)

// asSupervisor makes this program a supervisor of a harness that does what its
// value says.
const asSupervisor = "DESKFORK_TEST_SUPERVISOR"

func TestMain(m *testing.M) {
	what := os.Getenv(asSupervisor)
	if what == "" {
		os.Exit(m.Run())
	}
	s := guest.Machine{
		In: os.Stdin, Out: os.Stdout, Heartbeat: 50 * time.Millisecond,
		Start: func(ctx context.Context, _ supervisor.Command, h *guest.Harness) (int, error) {
			fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 1<<16)) // nobody must wait for it
			switch what {
			case "checkpoint":
				return 0, h.Checkpoint(ctx, "c1", "t1")
			case "fail":
				return 7, nil
			}
			_ = h.Checkpoint(ctx, "c1", "t1") // it says that it has come so far
			<-ctx.Done()
			return 0, ctx.Err()
		},
	}
	if err := s.Run(context.Background()); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// desktop is a fixture with a machine of a session.
func desktop(t *testing.T) (*hosttest.Fixture, *hosttest.Machine, session.Lease) {
	t.Helper()
	f := hosttest.New(t)
	tenure := sessiontest.Tenure(1)
	l, err := sandbox.New(sandbox.Config{Host: f.Host, Project: hosttest.Project, Machine: api.CreateDesktop{Image: "test", WorkspaceMiB: 64}}).
		Acquire(t.Context(), session.Allocation{Tenure: tenure, Name: session.NewIntent(tenure).ID})
	if err != nil {
		t.Fatal(err)
	}
	return f, f.Provider.Machines()[0], l
}

func harnessRun(t *testing.T, l session.Lease, d session.Driver) session.HarnessRun {
	t.Helper()
	return session.HarnessRun{Tenure: sessiontest.Tenure(1), Lease: l, WorkspacePath: t.TempDir(), Driver: d}
}

func sh(line string) session.Driver {
	return session.Driver{Lane: session.AMAWorker, Process: session.Process{Command: "sh", Args: []string{"-c", line}}}
}

// running counts the programs of a machine that run.
func running(t *testing.T, f *hosttest.Fixture, m *hosttest.Machine) (n, known int) {
	t.Helper()
	parts, err := f.Host.Guest(t.Context(), hosttest.Project, string(m.Spec.ID))
	if err != nil {
		t.Fatal(err)
	}
	list, err := parts.Execs.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range list {
		if st.Running {
			n++
		}
	}
	return n, len(list)
}

// lossy cuts the link each time that so much has come through.
type lossy struct {
	bytes.Buffer

	cut   func()
	every int
	next  int
}

func (w *lossy) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if w.Len() > w.next {
		w.next += w.every
		w.cut()
	}
	return n, err
}

// TestWorkerOverABrokenLink: each byte of its output comes once, all of its input
// goes, and the guest forgets it with its environment.
func TestWorkerOverABrokenLink(t *testing.T) {
	t.Parallel()
	f, m, l := desktop(t)
	_, before := running(t, f, m)
	input := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	out := &lossy{cut: m.Guest.Cut, every: 300_000, next: 100_000}
	var stderr bytes.Buffer
	d := harness.New(harness.Config{Guest: f.Host.Guest, Stdout: out, Stderr: &stderr, Input: input, Lost: func(s string, n int64) { t.Errorf("lost %d of %s", n, s) }})
	work := sh(`cat; echo "$TOKEN" >&2; pwd >&2`)
	work.Process.Env = map[string]session.Secret{"TOKEN": session.SecretOf("hush")}
	r := harnessRun(t, l, work)
	ending, err := d.Run(t.Context(), r)
	if err != nil || ending != session.EndingCompleted || !bytes.Equal(out.Bytes(), input) || stderr.String() != "hush\n"+r.WorkspacePath+"\n" {
		t.Errorf("%s, %v: %d bytes, %q", ending, err, out.Len(), stderr.String())
	}
	if n, known := running(t, f, m); n != 0 || known != before {
		t.Errorf("%d programs run, %d are known, %d before", n, known, before)
	}
}

// TestWorkerEnds: its exit status tells, and what is not there.
func TestWorkerEnds(t *testing.T) {
	t.Parallel()
	f, m, l := desktop(t)
	d := harness.New(harness.Config{Guest: f.Host.Guest})
	for line, want := range map[string]harness.ExitError{"exit 3": {Code: 3}, "kill -9 $$": {Code: 137, Signal: "KILL"}} {
		_, err := d.Run(t.Context(), harnessRun(t, l, sh(line)))
		if e, ok := errors.AsType[*harness.ExitError](err); !ok || e.Code != want.Code || e.Signal != want.Signal {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, err := d.Run(t.Context(), harnessRun(t, l, session.Driver{Lane: session.AMAWorker, Process: session.Process{Command: "/no/such"}})); err == nil {
		t.Error("a program that is not there ran")
	}
	if _, err := d.Run(t.Context(), harnessRun(t, l, session.Driver{Lane: "other"})); !errors.Is(err, session.ErrUnsupported) {
		t.Errorf("another lane: %v", err)
	}
	foreign := l
	foreign.Provider = "e2b"
	if _, err := d.Run(t.Context(), harnessRun(t, foreign, sh("true"))); !errors.Is(err, session.ErrForeign) {
		t.Errorf("another provider's: %v", err)
	}
	if n, _ := running(t, f, m); n != 0 {
		t.Errorf("%d programs run", n)
	}
}

// TestWorkerAborted: it is asked to end, then made to.
func TestWorkerAborted(t *testing.T) {
	t.Parallel()
	f, m, l := desktop(t)
	for name, line := range map[string]string{"listens": "trap 'exit 0' TERM; sleep 60 & until grep -qs sleep /proc/$!/comm; do :; done; echo on; wait", "does not": "trap '' TERM; echo on; while :; do sleep 0.05; done"} {
		ctx, cancel := context.WithCancel(t.Context())
		began, w := io.Pipe()
		go func() {
			_, _ = began.Read(make([]byte, 8))
			cancel()
			_, _ = io.Copy(io.Discard, began)
		}()
		d := harness.New(harness.Config{Guest: f.Host.Guest, Stdout: w})
		ending, err := d.Run(ctx, harnessRun(t, l, sh(line)))
		_ = w.Close()
		if ending != session.EndingAborted || err != nil {
			t.Errorf("%s: %s, %v", name, ending, err)
		}
		if n, _ := running(t, f, m); n != 0 {
			t.Errorf("%s: %d programs run", name, n)
		}
	}
}

func supervised(t *testing.T, what string) session.Driver {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return session.Driver{
		Lane: session.Supervised, Protocol: session.SupervisorProtocol, HarnessID: "h", Version: "1",
		Process:      session.Process{Command: self, Env: map[string]session.Secret{asSupervisor: session.SecretOf(what)}},
		ReadyTimeout: time.Minute, HeartbeatTimeout: time.Minute, DrainTimeout: time.Minute,
	}
}

// TestSupervisedInAGuest: the protocol goes over a real program's streams.
func TestSupervisedInAGuest(t *testing.T) {
	t.Parallel()
	f, m, l := desktop(t)
	d := harness.New(harness.Config{Guest: f.Host.Guest})
	if lanes, err := d.Lanes(t.Context(), session.Scope{}); err != nil || len(lanes) != 2 {
		t.Errorf("lanes %v, %v", lanes, err)
	}
	var mu sync.Mutex
	var asked []session.LiveCheckpoint
	r := harnessRun(t, l, supervised(t, "checkpoint"))
	r.Checkpoint = func(_ context.Context, c session.LiveCheckpoint) (int64, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, c)
		return 1, nil
	}
	if ending, err := d.Run(t.Context(), r); err != nil || ending != session.EndingCompleted || len(asked) != 1 || asked[0].ID != "c1" {
		t.Errorf("%s, %v, checkpoints %+v", ending, err, asked)
	}
	if _, err := d.Run(t.Context(), harnessRun(t, l, supervised(t, "fail"))); err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("one that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r = harnessRun(t, l, supervised(t, "hang"))
	r.Checkpoint = func(context.Context, session.LiveCheckpoint) (int64, error) { cancel(); return 1, nil }
	if ending, err := d.Run(ctx, r); err != nil || ending != session.EndingAborted {
		t.Errorf("one that is aborted: %s, %v", ending, err)
	}
	if n, _ := running(t, f, m); n != 0 {
		t.Errorf("%d programs run", n)
	}
}
