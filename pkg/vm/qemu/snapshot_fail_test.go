package qemu_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
)

// TestFailedSnapshot lets each command of a snapshot fail: the machine goes on,
// nothing is listed, and the next snapshot works.
func TestFailedSnapshot(t *testing.T) {
	t.Parallel()
	for command, stage := range map[string]string{
		"query-block": "survey", "blockdev-add": "overlays", "stop": "instant", "query-pci": "instant",
		"xen-save-devices-state": "instant", "transaction": "instant", "cont": "instant",
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			p := e.provider(t)
			m := created(t, p, e.specWith("fail "+command))
			_, err := p.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s1", Keep: true})
			assertUndone(t, e, p, m, err, stage)
		})
	}
}

// TestCancelledSnapshot ends the caller's context behind each step.
func TestCancelledSnapshot(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"survey", "journal", "files", "overlays", "stop", "devices", "switch", "instant", "moved", "disks", "memory", "digest"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ctx, cancel := context.WithCancel(t.Context())
			e.cfg.Trace = func(s string) {
				if s == "snapshot/"+step {
					cancel()
				}
			}
			p := e.provider(t)
			m := created(t, p, e.spec(t))
			_, err := p.Snapshot(ctx, m, vm.SnapshotSpec{ID: "s1", Keep: true})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Snapshot = %v, want the end of its context", err)
			}
			assertUndone(t, e, p, m, err, "")
		})
	}
}

//nolint:revive // each is another thing
func assertUndone(t *testing.T, e *env, p *qemu.Provider, m vm.Machine, err error, stage string) {
	t.Helper()
	var at *vm.StageError
	if !errors.As(err, &at) || stage != "" && at.Stage != stage {
		t.Errorf("Snapshot = %v, want a StageError of %q", err, stage)
	}
	all, err := p.Snapshots(t.Context())
	if err != nil || len(all) != 0 {
		t.Errorf("listed after a failure: %v, %v", all, err)
	}
	e.assertRunsInside(t, m)
	s, err := p.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s2"})
	if err != nil {
		t.Fatalf("the next snapshot: %v", err)
	}
	c, err := p.Clone(t.Context(), cloneSpec(s.ID, 1))
	if err != nil {
		t.Fatal(err)
	}
	destroy(t, c)
	if err := p.RemoveSnapshot(t.Context(), "s2"); err != nil {
		t.Fatal(err)
	}
	destroy(t, m)
	e.assertNothingLeft(t)
}

// assertRunsInside sees that a machine runs by what QEMU tells of it.
func (e *env) assertRunsInside(t *testing.T, m vm.Machine) {
	t.Helper()
	for end := time.Now().Add(time.Minute); m.Info().State != vm.StateRunning; <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("the machine is %s", m.Info().State)
			return
		}
	}
}

// TestForeignHostClass takes nothing that another kind of host has sealed.
func TestForeignHostClass(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.provider(t)
	sealed(t, p, created(t, p, e.spec(t)), "s1", false)
	path := filepath.Join(e.cfg.DataDir, "templates", "s1", "meta.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`"version": "7.2.99"`), []byte(`"version": "7.2.98"`), 1)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = p.Clone(t.Context(), cloneSpec("s1", 1))
	var at *vm.StageError
	if !errors.Is(err, vm.ErrHostClass) || !errors.As(err, &at) || at.Stage != "host-class" {
		t.Errorf("Clone = %v, want ErrHostClass", err)
	}
}

// TestOlderJournal: a machine of the version before is adopted, but its device
// model is another, so it is not sealed.
func TestOlderJournal(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.provider(t)
	m, err := first.Create(t.Context(), e.spec(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(m.Info().Dir, "journal.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`"version": 2`), []byte(`"version": 1`), 1)
	if err := errors.Join(os.WriteFile(path, b, 0o600), first.Close()); err != nil {
		t.Fatal(err)
	}
	p := e.provider(t)
	adopted, err := p.Recover(t.Context())
	if err != nil || len(adopted) != 1 {
		t.Fatalf("Recover = %v, %v", adopted, err)
	}
	if _, err := p.Snapshot(t.Context(), adopted[0], vm.SnapshotSpec{ID: "s1"}); !errors.Is(err, vm.ErrHostClass) {
		t.Errorf("Snapshot = %v, want ErrHostClass", err)
	}
	destroy(t, adopted[0])
	e.assertNothingLeft(t)
}

// TestPausedOverARestart: a daemon's end does not wake what a caller has paused,
// nor what was cloned paused.
func TestPausedOverARestart(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.provider(t)
	m, err := first.Create(t.Context(), e.spec(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.(vm.Pauser).Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealed(t, first, m, "s1", false)
	spec := cloneSpec("s1", 1)
	spec.Paused = true
	if _, err := first.Clone(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	adopted, err := e.provider(t).Recover(t.Context())
	if err != nil || len(adopted) != 2 {
		t.Fatalf("Recover = %v, %v", adopted, err)
	}
	slices.SortFunc(adopted, func(a, b vm.Machine) int { return bytes.Compare([]byte(a.Info().ID), []byte(b.Info().ID)) })
	for _, m := range adopted {
		if got := m.Info().State; got != vm.StatePaused {
			t.Errorf("%s is %s", m.Info().ID, got)
		}
		if err := m.(vm.Pauser).Resume(t.Context()); err != nil {
			t.Error(err)
		}
		e.assertRunsInside(t, m)
		destroy(t, m)
	}
	e.assertNothingLeft(t)
}

// qemuDies kills QEMU behind each step of a snapshot, and the child's behind each
// step of a clone: the caller hears of it and nothing half is left.
//
// A machine has to be ready for the steps to be taken: see TestSlowForkWithQEMU.
func qemuDies(t *testing.T, newEnv func(*testing.T) *env, ready func(*testing.T, vm.Machine)) {
	t.Helper()
	for _, step := range []string{"snapshot/survey", "snapshot/overlays", "snapshot/stop", "snapshot/devices", "snapshot/switch", "snapshot/instant", "snapshot/disks", "snapshot/memory"} {
		t.Run(filepath.Base(step), func(t *testing.T) {
			e := newEnv(t)
			var m vm.Machine
			e.cfg.Trace = func(s string) {
				if s == step {
					kill(t, m.Info().PID, unix.SIGKILL)
				}
			}
			p := e.provider(t)
			m = created(t, p, e.spec(t))
			ready(t, m)
			_, err := p.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s1", Keep: true})
			select {
			case <-m.Done():
			case <-time.After(time.Minute):
				t.Fatalf("the step is not reached; Snapshot = %v", err)
			}
			all, listErr := p.Snapshots(t.Context())
			if listErr != nil || len(all) != 0 == (err != nil) {
				t.Errorf("Snapshot = %v, but %v are listed, %v", err, all, listErr)
			}
			if err := p.RemoveSnapshot(t.Context(), "s1"); err != nil {
				t.Error(err)
			}
			destroy(t, m)
			e.assertNothingLeft(t)
		})
	}
	for _, step := range []string{"clone/journal-process", "clone/qmp", "clone/template", "clone/pages", "clone/load", "clone/screen", "clone/sound", "clone/resume"} {
		t.Run(filepath.Base(step), func(t *testing.T) {
			e := newEnv(t)
			var m vm.Machine
			e.cfg.Trace = func(s string) {
				if s != step {
					return
				}
				for _, pid := range processes(t, e.cfg.DataDir) {
					if pid != m.Info().PID {
						kill(t, pid, unix.SIGKILL)
					}
				}
			}
			p := e.provider(t)
			m = created(t, p, e.spec(t))
			ready(t, m)
			sealed(t, p, m, "s1", false)
			c, err := p.Clone(t.Context(), cloneSpec("s1", 1))
			if err == nil { // it was the last step: handed out, and ended
				<-c.Done()
				destroy(t, c)
			}
			if left := processes(t, e.cfg.DataDir); !slices.Equal(left, []int{m.Info().PID}) {
				t.Errorf("after %v there run %v, want the parent %d", err, left, m.Info().PID)
			}
			if _, err := p.Clone(t.Context(), vm.CloneSpec{ID: "c2", Incarnation: "ic2", Snapshot: "s9"}); !errors.Is(err, vm.ErrNotFound) {
				t.Errorf("Clone of nothing = %v", err)
			}
			if err := p.RemoveSnapshot(t.Context(), "s1"); err != nil {
				t.Error(err)
			}
			destroy(t, m)
			e.assertNothingLeft(t)
		})
	}
}

func TestQEMUDiesAtEveryStepWithFakeQEMU(t *testing.T) { //nolint:paralleltest // it looks for processes
	qemuDies(t, newEnv, func(*testing.T, vm.Machine) {})
}
