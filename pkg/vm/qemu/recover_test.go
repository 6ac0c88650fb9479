package qemu_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
)

const crashFlag = "-crash-child"

// crashJob is what the dying daemon is told.
type crashJob struct {
	DataDir, RuntimeDir, QEMU, QEMUImg, Mke2fs string
	User                                       *qemu.User
	Accelerator                                vm.Accelerator
	Spec                                       vm.Spec
	// Step is the number of the step after which the daemon kills itself; beyond
	// the last it dies when all is done.
	Step int
	Work string // after Create: nothing, destroy, or fork
}

// crashChild is a daemon that creates a machine, destroys it when it shall, and
// dies by its own SIGKILL after a step. What it prints is the step's name.
func crashChild(args []string) int {
	var job crashJob
	if err := json.Unmarshal([]byte(args[0]), &job); err != nil {
		say(err.Error())
		return 1
	}
	n, quiet := 0, job.Work == "fork" // how machines are created is another's test
	die := func(step string) {
		_, _ = os.Stdout.WriteString(step)
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
	p, err := qemu.New(qemu.Config{
		DataDir: job.DataDir, RuntimeDir: job.RuntimeDir, QEMU: job.QEMU, QEMUImg: job.QEMUImg, Mke2fs: job.Mke2fs,
		User: job.User, Accelerator: job.Accelerator, Network: pipeNetwork, MaxOverlays: 1000,
		Trace: func(step string) {
			if quiet {
				return
			}
			if n++; n == job.Step {
				die(step)
			}
			if job.Work == "fork" {
				_, _ = os.Stdout.WriteString(step + "\n")
			}
		},
	})
	if err != nil {
		say(err.Error())
		return 1
	}
	m, err := p.Create(context.Background(), job.Spec)
	if err == nil && quiet {
		err = ripe(p, m)
	}
	quiet = false
	switch {
	case err != nil:
	case job.Work == "destroy":
		err = m.Destroy(context.Background())
	case job.Work == "fork":
		err = forkAndFork(p, m)
	}
	if err != nil {
		say(err.Error())
		return 1
	}
	die("done")
	return 0
}

// crashAt runs a daemon that dies after a step and returns the step's name.
func (e *env) crashAt(t *testing.T, step int, work string) string {
	t.Helper()
	job, err := json.Marshal(crashJob{
		DataDir: e.cfg.DataDir, RuntimeDir: e.cfg.RuntimeDir, QEMU: e.cfg.QEMU, QEMUImg: e.cfg.QEMUImg, Mke2fs: e.cfg.Mke2fs,
		User: e.cfg.User, Accelerator: e.cfg.Accelerator, Spec: e.spec(t), Step: step, Work: work,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], crashFlag, string(job))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys() == nil || cmd.ProcessState.String() != "signal: killed" {
		t.Fatalf("the daemon ended with %v instead of dying: %s", err, out)
	}
	return string(out)
}

// killAtEveryStep kills a daemon after each step of Create and Destroy. The
// next one must adopt exactly a machine that had been handed out, and remove
// every other's traces.
func killAtEveryStep(t *testing.T, newEnv func(*testing.T) *env) {
	t.Helper()
	seen := map[string]bool{}
	for step := 1; ; step++ {
		e := newEnv(t)
		name := e.crashAt(t, step, "destroy")
		if name == "done" {
			e.assertNothingLeft(t)
			break
		}
		seen[name] = true
		t.Run(fmt.Sprintf("%02d %s", step, filepath.Base(name)), func(t *testing.T) {
			p := e.provider(t)
			adopted, err := p.Recover(t.Context())
			if err != nil {
				t.Fatalf("Recover after %s: %v", name, err)
			}
			handedOut := name == "create/running"
			if handedOut != (len(adopted) == 1) {
				t.Fatalf("after %s %d machines were adopted", name, len(adopted))
			}
			if handedOut {
				assertWorks(t, adopted[0])
				if err := adopted[0].Destroy(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			e.assertNothingLeft(t)
			// The names are free again.
			m, err := p.Create(t.Context(), e.spec(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
	if len(seen) < 20 || !seen["create/spawn"] || !seen["destroy/journal"] {
		t.Errorf("only these steps were tried: %v", seen)
	}
}

func assertWorks(t *testing.T, m vm.Machine) {
	t.Helper()
	if i := m.Info(); !i.Adopted || i.State != vm.StateRunning || i.Started.IsZero() || i.ID != "d1" {
		t.Errorf("Info = %+v", i)
	}
	c, err := m.DialDisplay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "RFB " {
		t.Errorf("display says %q, %v", b, err)
	}
	c.Close()
	g, err := m.DialGuest(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
}

func TestKillAtEveryStepWithFakeQEMU(t *testing.T) { //nolint:tparallel // its steps are an order
	t.Parallel()
	killAtEveryStep(t, newEnv)
}

// TestAdoptedMachine follows one that survived through all that can become of it.
func TestAdoptedMachine(t *testing.T) {
	t.Parallel()
	const beyond = 1000
	for name, end := range map[string]func(*testing.T, vm.Machine) error{
		"stop": func(t *testing.T, m vm.Machine) error {
			t.Helper()
			return m.Stop(t.Context(), 30*time.Second)
		},
		"crash": func(t *testing.T, m vm.Machine) error {
			t.Helper()
			kill(t, m.Info().PID, unix.SIGKILL)
			<-m.Done()
			if _, ok := errors.AsType[*vm.ExitError](m.Err()); !ok {
				return fmt.Errorf("Err = %w, want an ExitError", m.Err())
			}
			return nil
		},
		"guest off while nobody looks": func(*testing.T, vm.Machine) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.crashAt(t, beyond, "")
			first := e.provider(t)
			adopted, err := first.Recover(t.Context())
			if err != nil || len(adopted) != 1 {
				t.Fatalf("Recover = %v, %v", adopted, err)
			}
			m := adopted[0]
			if name == "guest off while nobody looks" {
				m = offUnseen(t, e, first, m)
			}
			if err := end(t, m); err != nil {
				t.Fatal(err)
			}
			if err := m.Destroy(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.assertNothingLeft(t)
		})
	}
}

// offUnseen powers the guest off between two daemons.
func offUnseen(t *testing.T, e *env, first *qemu.Provider, m vm.Machine) vm.Machine {
	t.Helper()
	c, err := m.DialDisplay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("P")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, c)
	adopted, err := e.provider(t).Recover(t.Context())
	if err != nil || len(adopted) != 1 {
		t.Fatalf("second Recover = %v, %v", adopted, err)
	}
	<-adopted[0].Done()
	if !errors.Is(adopted[0].Err(), vm.ErrGuestShutdown) {
		t.Errorf("Err = %v, want ErrGuestShutdown", adopted[0].Err())
	}
	return adopted[0]
}

// TestRecycledPidIsNotTouched forges a journal that names a process of ours.
func TestRecycledPidIsNotTouched(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.crashAt(t, 1000, "")
	path := filepath.Join(e.cfg.DataDir, "desktops", "d1", "i1", "journal.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var j map[string]any
	if err := json.Unmarshal(b, &j); err != nil {
		t.Fatal(err)
	}
	id, ok := j["process"].(map[string]any)
	if !ok {
		t.Fatalf("journal %s", b)
	}
	stranger := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	id["pid"] = stranger.Process.Pid
	if b, err = json.Marshal(j); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	adopted, err := e.provider(t).Recover(t.Context())
	if err != nil || len(adopted) != 0 {
		t.Fatalf("Recover = %v, %v; want nothing adopted", adopted, err)
	}
	if _, err := os.Stat(filepath.Join("/proc", strconv.Itoa(stranger.Process.Pid))); err != nil {
		t.Errorf("the stranger was ended: %v", err)
	}
	if st, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(stranger.Process.Pid), "stat")); err != nil || string(st[len(st)-2:]) == "Z" {
		t.Errorf("the stranger was ended: %s %v", st, err)
	}
	e.assertNothingLeft(t) // the real QEMU was found by its UUID
}

// TestRecoverGarbage: broken journals, half-made directories and stray sockets
// go away; what is not ours stays.
func TestRecoverGarbage(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	desktops := filepath.Join(e.cfg.DataDir, "desktops")
	for path, content := range map[string]string{
		filepath.Join(desktops, "d1", "i1", "journal.json"):        "{",
		filepath.Join(desktops, "d2", "i2", ".journal.json.1.tmp"): "",
		filepath.Join(desktops, "d3", "i3", "system.qcow2"):        "x",
		filepath.Join(desktops, "d4", "i4", "journal.json"):        `{"version":99}`,
		filepath.Join(e.cfg.RuntimeDir, "vm", "stray", "qmp"):      "",
		filepath.Join(e.cfg.RuntimeDir, "other-thing"):             "ours",
		filepath.Join(desktops, "Not-An-Id", "README"):             "somebody's",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(desktops, "d5"), 0o700); err != nil {
		t.Fatal(err)
	}
	if adopted, err := e.provider(t).Recover(t.Context()); err != nil || len(adopted) != 0 {
		t.Fatalf("Recover = %v, %v", adopted, err)
	}
	for _, path := range []string{filepath.Join(e.cfg.RuntimeDir, "other-thing"), filepath.Join(desktops, "Not-An-Id", "README")} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("Recover removed what is not its own: %v", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(desktops, "Not-An-Id")); err != nil {
		t.Fatal(err)
	}
	e.assertNothingLeft(t)
}
