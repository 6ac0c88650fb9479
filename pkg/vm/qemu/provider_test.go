package qemu_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

func TestConformanceWithFakeQEMU(t *testing.T) {
	t.Parallel()
	var last *env
	vmtest.Run(t, vmtest.Harness{
		New: func(t *testing.T) vm.Provider {
			t.Helper()
			e := newEnv(t)
			last = e
			t.Cleanup(func() { e.assertNothingLeft(t) })
			return e.provider(t)
		},
		Spec: func(t *testing.T) vm.Spec { t.Helper(); return last.spec(t) },
		PowerOff: func(t *testing.T, m vm.Machine) {
			t.Helper()
			c, err := m.DialDisplay(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte("P")); err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, c)
		},
		Crash:   func(t *testing.T, m vm.Machine) { t.Helper(); kill(t, m.Info().PID, unix.SIGKILL) },
		Obeys:   true,
		Restart: func(t *testing.T, p vm.Provider) vm.Provider { t.Helper(); return last.restart(t, p) },
		Damage:  func(t *testing.T, _ vm.Provider, id vm.SnapshotID) { t.Helper(); last.damage(t, id) },
	})
}

func TestFilesAndModes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var steps []string
	e.cfg.Trace = func(s string) { steps = append(steps, s) }
	m, err := e.provider(t).Create(t.Context(), e.specWith("secret"))
	if err != nil {
		t.Fatal(err)
	}
	dir := m.Info().Dir
	if want := filepath.Join(e.cfg.DataDir, "desktops", "d1", "i1"); dir != want {
		t.Errorf("Dir = %s, want %s", dir, want)
	}
	for _, name := range []string{"system.qcow2", "workspace.qcow2", "journal.json", "qemu.log", "serial.log", "ram"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 0600", name, st, err)
		}
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", st, err)
	}
	if _, err := os.Stat(filepath.Join(e.cfg.RuntimeDir, "vm", "i1", "config.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the guest's token is still on the host: %v", err)
	}
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.Info().PID), "status"))
	if err != nil || !strings.Contains(string(status), "THP_enabled:\t0") {
		t.Errorf("transparent huge pages are not off in QEMU: %v", err)
	}
	if own, err := os.ReadFile("/proc/self/status"); err != nil || strings.Contains(string(own), "THP_enabled:\t0") {
		t.Errorf("transparent huge pages stayed off in the daemon: %v", err)
	}
	limits, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(m.Info().PID), "limits"))
	if err != nil || !strings.Contains(string(limits), "Max core file size        0 ") {
		t.Errorf("QEMU may dump core: %s %v", limits, err)
	}
	if sid, err := unix.Getsid(m.Info().PID); err != nil || sid != m.Info().PID {
		t.Errorf("session %d, %v; want its own", sid, err)
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.assertNothingLeft(t)
	if steps[0] != "create/prepare" || steps[1] != "create/journal" || steps[len(steps)-1] != "destroy/desktop" {
		t.Errorf("steps %v", steps)
	}
}

func TestCreateFailures(t *testing.T) {
	t.Parallel()
	errNet := errors.New("no network today")
	for name, tc := range map[string]struct {
		change func(*env, *vm.Spec)
		stage  string
		is     error
		says   string
	}{
		"QEMU dies at start": {func(_ *env, s *vm.Spec) { s.GuestConfig = []byte("die") }, "qmp", nil, "could not load the fake kernel"},
		"disk full": {func(e *env, s *vm.Spec) {
			s.System.Base = filepath.Join(filepath.Dir(e.base), "full.raw")
			_ = os.WriteFile(s.System.Base, nil, 0o600)
		}, "system-disk", vm.ErrNoSpace, "No space left"},
		"base missing": {func(_ *env, s *vm.Spec) { s.System.Base = "/nonexistent/x.raw" }, "system-disk", fs.ErrNotExist, "base image"},
		"no qemu-img":  {func(e *env, _ *vm.Spec) { e.cfg.QEMUImg = "/nonexistent/qemu-img" }, "system-disk", fs.ErrNotExist, "qemu-img"},
		"no mke2fs":    {func(e *env, _ *vm.Spec) { e.cfg.Mke2fs = "/nonexistent/mke2fs" }, "workspace-disk", fs.ErrNotExist, "mke2fs"},
		"no QEMU":      {func(e *env, _ *vm.Spec) { e.cfg.QEMU = "/nonexistent/qemu" }, "probe", fs.ErrNotExist, "qemu"},
		"network refuses": {func(e *env, _ *vm.Spec) {
			e.cfg.Network = func(context.Context, qemu.NetworkSpec) (qemu.Network, error) { return nil, errNet }
		}, "network", errNet, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			s := e.spec(t)
			tc.change(e, &s)
			_, err := e.provider(t).Create(t.Context(), s)
			var stage *vm.StageError
			if !errors.As(err, &stage) || stage.Stage != tc.stage || !strings.Contains(err.Error(), tc.says) ||
				tc.is != nil && !errors.Is(err, tc.is) {
				t.Fatalf("Create = %v; want stage %s, %v, saying %q", err, tc.stage, tc.is, tc.says)
			}
			if name == "QEMU dies at start" {
				var exit *vm.ExitError
				if !errors.As(err, &exit) || exit.Stage != "start" || exit.Status != "exit status 1" {
					t.Errorf("Create = %#v, want an ExitError of stage start", err)
				}
			}
			e.assertNothingLeft(t)
		})
	}
}

func TestDeafGuestIsEndedAfterGrace(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	m, err := e.provider(t).Create(t.Context(), e.specWith("deaf"))
	if err != nil {
		t.Fatal(err)
	}
	const grace = 200 * time.Millisecond
	began := time.Now()
	if err := m.Stop(t.Context(), grace); err != nil || m.Err() != nil {
		t.Fatalf("Stop: %v, Err %v", err, m.Err())
	}
	if d := time.Since(began); d < grace {
		t.Errorf("ended after %v, before its grace", d)
	}
	if _, err := os.Stat(filepath.Join(m.Info().Dir, "workspace.qcow2")); err != nil {
		t.Errorf("disks do not stay after Stop: %v", err)
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.assertNothingLeft(t)
}

// TestStuckMachineBlocksNobody stops one QEMU with SIGSTOP.
func TestStuckMachineBlocksNobody(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p := e.provider(t)
	stuck, err := p.Create(t.Context(), e.spec(t))
	if err != nil {
		t.Fatal(err)
	}
	kill(t, stuck.Info().PID, unix.SIGSTOP)
	for stat := ""; !strings.Contains(stat, ") T "); { // no thread of it runs on
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", stuck.Info().PID))
		if err != nil {
			t.Fatal(err)
		}
		stat = string(raw)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- stuck.Stop(t.Context(), time.Hour) }() // awaited below
	s := e.spec(t)
	s.ID, s.Incarnation = "d2", "i2"
	other, err := p.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if u := p.Usage(); u.Machines != 2 || u.PromisedMemory != 128<<20 || u.MemoryBytes == 0 || u.DiskBytes == 0 {
		t.Errorf("Usage = %+v", u)
	}
	if err := other.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-stopped:
		t.Fatalf("the stuck machine ended meanwhile: %v", err)
	default: // nobody has waited for it
	}
	if err := stuck.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Stop: %v", err)
	}
	e.assertNothingLeft(t)
}

func TestDialsAfterTheEndAndWithoutNetwork(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.cfg.Network = nil
	m, err := e.provider(t).Create(t.Context(), e.spec(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.DialGuest(t.Context(), 1); !errors.Is(err, vm.ErrNoNetwork) {
		t.Errorf("DialGuest = %v, want ErrNoNetwork", err)
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSecondDaemonIsRefused(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	first := e.provider(t)
	if _, err := first.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.provider(t).Recover(t.Context()); err == nil || !strings.Contains(err.Error(), "another daemon") {
		t.Fatalf("second Recover = %v, want a refusal", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.provider(t).Recover(t.Context()); err != nil {
		t.Fatalf("Recover after the first has closed: %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	_, err := qemu.New(qemu.Config{DataDir: "data", RuntimeDir: "/" + strings.Repeat("x", 100), Accelerator: "warp"})
	for _, want := range []string{"DataDir", "choose a shorter one", "warp"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New = %v, want it to mention %q", err, want)
		}
	}
}
