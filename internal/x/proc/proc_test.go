//go:build linux

package proc_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/x/proc"
)

const childFlag = "-proc-test-child"

// TestMain turns the test binary into a child that says so and waits.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, childFlag) {
		_, _ = os.Stdout.WriteString("ready\n")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	os.Exit(m.Run())
}

// child starts a process with marker as an argument and returns once it runs.
func child(t *testing.T, marker string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], childFlag, marker)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("child said %q, %v", line, err)
	}
	return cmd
}

func TestOpenProvesIdentity(t *testing.T) {
	t.Parallel()
	const marker = "c0ffee00-open"
	cmd := child(t, marker)
	p, err := proc.Attach(cmd.Process.Pid, marker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	good := p.Identity()
	for name, tc := range map[string]struct {
		change func(*proc.Identity)
		gone   bool
	}{
		"the same":       {func(*proc.Identity) {}, false},
		"other start":    {func(i *proc.Identity) { i.Start++ }, true},
		"other boot":     {func(i *proc.Identity) { i.Boot = "x" }, true},
		"other marker":   {func(i *proc.Identity) { i.Marker = "x" }, true},
		"part of marker": {func(i *proc.Identity) { i.Marker = marker[:4] }, true},
		"no marker":      {func(i *proc.Identity) { i.Marker = "" }, true},
		"our own pid":    {func(i *proc.Identity) { i.PID = os.Getpid() }, true},
		"no pid":         {func(i *proc.Identity) { i.PID = 0 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := good
			tc.change(&id)
			q, err := proc.Open(id)
			if err == nil {
				q.Close()
			}
			if tc.gone != errors.Is(err, proc.ErrGone) || !tc.gone && err != nil {
				t.Fatalf("Open = %v, want gone %v", err, tc.gone)
			}
		})
	}
}

func TestAttachTellsStrangersFromTheDead(t *testing.T) {
	t.Parallel()
	cmd := child(t, "c0ffee00-stranger")
	if _, err := proc.Attach(cmd.Process.Pid, "x"); !errors.Is(err, proc.ErrOther) || !errors.Is(err, proc.ErrGone) {
		t.Fatalf("Attach to a stranger = %v, want ErrOther", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p, err := proc.Attach(cmd.Process.Pid, "c0ffee00-stranger")
	for err == nil { // until the kernel has made it a zombie
		p.Close()
		p, err = proc.Attach(cmd.Process.Pid, "c0ffee00-stranger")
	}
	if !errors.Is(err, proc.ErrGone) {
		t.Fatalf("Attach to the dead = %v, want ErrGone", err)
	}
}

func TestKillWaitsAndIsIdempotent(t *testing.T) {
	t.Parallel()
	const marker = "c0ffee00-kill"
	cmd := child(t, marker)
	p, err := proc.Attach(cmd.Process.Pid, marker)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Wait for a live process = %v, want deadline", err)
	}
	if !p.Alive() {
		t.Fatal("not alive")
	}
	for range 2 {
		if err := p.Kill(t.Context()); err != nil {
			t.Fatalf("Kill: %v", err)
		}
	}
	if p.Alive() {
		t.Fatal("alive after Kill")
	}
	// A zombie is gone too: its pid is taken, but nothing runs.
	if _, err := proc.Open(p.Identity()); !errors.Is(err, proc.ErrGone) {
		t.Fatalf("Open of a zombie = %v, want ErrGone", err)
	}
	_ = cmd.Wait()
	if err := p.Signal(unix.SIGTERM); !errors.Is(err, proc.ErrGone) {
		t.Fatalf("Signal after reaping = %v, want ErrGone", err)
	}
}

func TestFindAndMemory(t *testing.T) {
	t.Parallel()
	const marker = "c0ffee00-find"
	cmd := child(t, marker)
	found, err := proc.Find(marker)
	if err != nil || len(found) != 1 || found[0].Identity().PID != cmd.Process.Pid {
		t.Fatalf("Find = %v, %v; want pid %d alone", found, err, cmd.Process.Pid)
	}
	found[0].Close()
	if found, err := proc.Find("c0ffee00-nobody"); err != nil || len(found) != 0 {
		t.Fatalf("Find of a stranger = %v, %v", found, err)
	}
	if n, err := proc.Memory(cmd.Process.Pid); err != nil || n < 64<<10 {
		t.Fatalf("Memory = %d, %v; want at least 64 KiB", n, err)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		state, _, err := proc.ParseStat(b)
		if err == nil && state == 0 {
			t.Fatal("no state and no error")
		}
	})
}

func TestParseStatNameWithParenthesis(t *testing.T) {
	t.Parallel()
	state, start, err := proc.ParseStat([]byte("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n"))
	if state != 'S' || start != 4711 || err != nil {
		t.Fatalf("ParseStat = %c %d %v, want S 4711", state, start, err)
	}
}

func TestCPUTime(t *testing.T) {
	t.Parallel()
	before, err := proc.CPUTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		now, err := proc.CPUTime(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if now-before >= 50*time.Millisecond {
			if now-before > time.Minute {
				t.Errorf("it took %s", now-before)
			}
			return
		}
	}
	t.Error("a busy process takes no time")
}
