package qemu_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
)

func sealed(t *testing.T, p vm.Snapshotter, m vm.Machine, id vm.SnapshotID, keep bool) vm.Sealed {
	t.Helper()
	s, err := p.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: id, Keep: keep})
	if err != nil {
		t.Fatalf("Snapshot %s: %v", id, err)
	}
	return s
}

func created(t *testing.T, p vm.Provider, spec vm.Spec) vm.Machine {
	t.Helper()
	m, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, m) })
	return m
}

// TestForkBeforeTheKernelIsLoaded: a clone of a machine whose firmware may not have
// loaded the kernel yet is given it, to load it as well; a later one is not.
func TestForkBeforeTheKernelIsLoaded(t *testing.T) {
	t.Parallel()
	for config, given := range map[string]bool{"early": true, "": false} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			p := e.provider(t)
			spec := e.specWith(config)
			spec.Boot = vm.Boot{Kernel: filepath.Join(filepath.Dir(e.base), "vmlinuz"), Cmdline: "quiet"}
			m := created(t, p, spec)
			for n, from := range []vm.SnapshotID{"s1", "s2"} { // a child of the child too
				sealed(t, p, m, from, false)
				child := cloneSpec(from, n)
				child.GuestConfig = []byte(config)
				c, err := p.Clone(t.Context(), child)
				if err != nil {
					t.Fatal(err)
				}
				defer destroy(t, c)
				args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.Info().PID))
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Contains(string(args), "-kernel\x00"+spec.Boot.Kernel+"\x00"); got != given {
					t.Errorf("clone %d has its kernel: %t, want %t", n, got, given)
				}
				m = c
			}
		})
	}
}

// TestSlowSnapshot takes a machine without a framebuffer through a stream.
func TestSlowSnapshot(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.provider(t)
	m := created(t, p, e.specWith("bare"))
	s := sealed(t, p, m, "s1", true)
	if !strings.Contains(s.Slow, "framebuffer") || s.Template != "s1" {
		t.Errorf("sealed %+v, want the slow way and its reason", s)
	}
	if state := m.Info().State; state != vm.StateRunning {
		t.Errorf("the machine is %s", state)
	}
	c, err := p.Clone(t.Context(), cloneSpec("s1", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, c)
	if i := c.Info(); i.Template != "" || i.Snapshot != "s1" {
		t.Errorf("the clone is %+v: it maps no template", i)
	}
	// Its memory is its own: what it changed is all of it.
	if s := sealed(t, p, c, "s2", false); s.Template != "s2" || s.Slow != "" {
		t.Errorf("sealed %+v, want a template of its own", s)
	}
}

// TestUnsoundClone loads a state that QEMU complains of.
func TestUnsoundClone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.provider(t)
	sealed(t, p, created(t, p, e.spec(t)), "s1", false)
	spec := cloneSpec("s1", 1)
	spec.GuestConfig = []byte("sick")
	_, err := p.Clone(t.Context(), spec)
	var stage *vm.StageError
	if !errors.Is(err, vm.ErrUnsound) || !errors.As(err, &stage) || stage.Stage != "sound" || !strings.Contains(err.Error(), "inconsistent") {
		t.Errorf("Clone = %v, want ErrUnsound at stage sound with QEMU's words", err)
	}
	if _, err := os.Stat(filepath.Join(e.cfg.DataDir, "desktops", "c1")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unsound clone left its directory: %v", err)
	}
}

// TestDiskCountsOnce: a frozen overlay is the store's, not the machine's.
func TestDiskCountsOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.provider(t)
	m := created(t, p, e.spec(t))
	dir := m.Info().Dir
	for _, id := range []vm.SnapshotID{"s1", "s2", "s3"} {
		sealed(t, p, m, id, false)
	}
	for _, name := range []string{"system.qcow2", "workspace.qcow2"} {
		a, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.Stat(filepath.Join(e.cfg.DataDir, "templates", "s1", name))
		if err != nil || !os.SameFile(a, b) {
			t.Errorf("%s is not one file in both places: %v", name, err)
		}
		if a.Mode().Perm()&0o222 != 0 {
			t.Errorf("%s can be written to: %v", name, a.Mode())
		}
	}
	// The machine stands on all three: nothing of their disks goes with them.
	for _, id := range []vm.SnapshotID{"s1", "s2", "s3"} {
		if err := p.RemoveSnapshot(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(e.cfg.DataDir, "templates", string(id)))
		if err != nil || len(entries) != 2 {
			t.Errorf("of %s there is %v, %v; want the two disks", id, entries, err)
		}
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.assertNothingLeft(t)
}

// flattens seals a machine until its chains are shortened: then it needs nothing
// of its snapshots any more.
func flattens(t *testing.T, e *env) {
	t.Helper()
	e.cfg.MaxOverlays = 2
	flat := make(chan struct{}, 10)
	e.cfg.Trace = func(step string) {
		if step == "flatten/journal" {
			flat <- struct{}{}
		}
	}
	p := e.provider(t)
	m := created(t, p, e.spec(t))
	ids := []vm.SnapshotID{"s1", "s2", "s3"}
	for _, id := range ids {
		sealed(t, p, m, id, true)
	}
	select {
	case <-flat:
	case <-time.After(time.Minute):
		t.Fatal("three overlays, two allowed, and nothing was flattened")
	}
	// Its own, and one in the middle, of which a clone is made afterwards.
	for _, id := range []vm.SnapshotID{"s1", "s3"} {
		if err := p.RemoveSnapshot(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	c, err := p.Clone(t.Context(), cloneSpec("s2", 1))
	if err != nil {
		t.Fatal(err)
	}
	destroy(t, c)
	sealed(t, p, m, "s4", false)
	for _, id := range []vm.SnapshotID{"s2", "s4"} {
		if err := p.RemoveSnapshot(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(e.cfg.DataDir, "templates", "*", "*"))
	want := []string{filepath.Join(e.cfg.DataDir, "templates/s4/system.qcow2"), filepath.Join(e.cfg.DataDir, "templates/s4/workspace.qcow2")}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("the machine still stands on %v, want %v", left, want)
	}
	own, err := filepath.Glob(filepath.Join(m.Info().Dir, "*.qcow2"))
	if err != nil || len(own) != 4 {
		t.Errorf("the machine has the disks %v, want two and their frozen halves", own)
	}
}

func TestFlattenWithFakeQEMU(t *testing.T) {
	t.Parallel()
	flattens(t, newEnv(t))
}
