//go:build integration

package qemu_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
)

// nobody is an unprivileged user on every Debian.
const nobody = 65534

// realEnv runs the real QEMU, without a kernel: firmware that finds nothing to
// boot. As root QEMU runs as another user.
func realEnv(t *testing.T) *env {
	t.Helper()
	e := newEnv(t)
	e.cfg.QEMU, e.cfg.QEMUImg, e.cfg.Mke2fs = "", "", ""
	e.cfg.Accelerator = vm.AccelTCG
	if os.Geteuid() == 0 {
		e.cfg.User = &qemu.User{UID: nobody, GID: nobody}
		// The test's own directory lets that user through.
		if err := errors.Join(os.Chmod(filepath.Dir(e.base), 0o711), os.Chmod(e.base, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func TestConformanceWithQEMU(t *testing.T) {
	var last *env
	vmtest.Run(t, vmtest.Harness{
		New: func(t *testing.T) vm.Provider {
			t.Helper()
			e := realEnv(t)
			last = e
			t.Cleanup(func() { e.assertNothingLeft(t) })
			return e.provider(t)
		},
		Spec:    func(t *testing.T) vm.Spec { t.Helper(); return last.spec(t) },
		Crash:   func(t *testing.T, m vm.Machine) { t.Helper(); kill(t, m.Info().PID, unix.SIGKILL) },
		Restart: func(t *testing.T, p vm.Provider) vm.Provider { t.Helper(); return last.restart(t, p) },
		Damage:  func(t *testing.T, _ vm.Provider, id vm.SnapshotID) { t.Helper(); last.damage(t, id) },
	})
}

func TestKillAtEveryStepWithQEMU(t *testing.T) { killAtEveryStep(t, provenEnv(t)) }

func TestKillAtEveryStepOfForksWithQEMU(t *testing.T) { killForks(t, provenEnv(t)) }

// provenEnv makes environments for one daemon after the other: the accelerator is
// probed once, the daemons to come find its cache.
func provenEnv(t *testing.T) func(t *testing.T) *env {
	t.Helper()
	first := realEnv(t)
	if _, err := first.provider(t).Capabilities(t.Context()); err != nil {
		t.Fatal(err)
	}
	cache, err := os.ReadFile(filepath.Join(first.cfg.DataDir, "accel.json"))
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) *env {
		t.Helper()
		e := realEnv(t)
		if err := os.MkdirAll(e.cfg.DataDir, 0o711); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(e.cfg.DataDir, "accel.json"), cache, 0o600); err != nil {
			t.Fatal(err)
		}
		return e
	}
}

// multiboot is a kernel of code that QEMU's firmware jumps to in 32-bit mode
// (Multiboot 0.6.96, section 3.1).
func multiboot(code ...byte) []byte {
	const magic, flags, base = 0x1BADB002, 0x00010000, 0x100000
	var b []byte
	var sum uint32
	sum -= magic + flags
	for _, v := range []uint32{magic, flags, sum, base, base, 0, 0, base + 32} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return append(b, code...)
}

// offKernel switches the machine off: PM1a control of q35's chipset (ACPI 6.5,
// section 4.8.3.2.1) takes sleep enable, type 0.
func offKernel() []byte {
	return multiboot(
		0x66, 0xba, 0x04, 0x06, // mov dx, 0x604
		0x66, 0xb8, 0x00, 0x20, // mov ax, 0x2000
		0x66, 0xef, // out dx, ax
		0xf4, 0xeb, 0xfd, // hlt; jmp -3
	)
}

func TestGuestSwitchesItselfOff(t *testing.T) {
	e := realEnv(t)
	s := e.spec(t)
	s.Boot.Kernel = filepath.Join(filepath.Dir(e.base), "off")
	if err := os.WriteFile(s.Boot.Kernel, offKernel(), 0o644); err != nil {
		t.Fatal(err)
	}
	p := e.provider(t)
	m, err := p.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-m.Done():
	case <-time.After(2 * time.Minute):
		t.Error("guest did not go off")
	}
	if !errors.Is(m.Err(), vm.ErrGuestShutdown) {
		t.Errorf("Err = %v, want ErrGuestShutdown", m.Err())
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.assertNothingLeft(t)
}

func TestQEMUDiesAtStart(t *testing.T) {
	e := realEnv(t)
	s := e.spec(t)
	s.Boot.Kernel = "/nonexistent/vmlinuz"
	_, err := e.provider(t).Create(t.Context(), s)
	var exit *vm.ExitError
	if !errors.As(err, &exit) || exit.Stage != "start" || !strings.Contains(exit.Stderr, "/nonexistent/vmlinuz") {
		t.Fatalf("Create = %v, want an ExitError with QEMU's words", err)
	}
	e.assertNothingLeft(t)
}

// TestLockedDown looks at a QEMU from outside: user, files, sandbox, memory.
func TestLockedDown(t *testing.T) {
	e := realEnv(t)
	m, err := e.provider(t).Create(t.Context(), e.specWith("secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	pid := m.Info().PID
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Seccomp:\t2", "THP_enabled:\t0"}
	if e.cfg.User != nil {
		want = append(want, "Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000000000", "Groups:\t ")
	}
	for _, w := range want {
		if !strings.Contains(string(b), w) {
			t.Errorf("status of QEMU lacks %q", w)
		}
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(m.Info().Dir, "journal.json"), &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o777 != 0o600 {
		t.Errorf("journal: owner %d mode %o, %v", st.Uid, st.Mode, err)
	}
	if err := unix.Stat(filepath.Join(m.Info().Dir, "ram"), &st); err != nil || st.Size != 64<<20 || st.Blocks > 16 {
		t.Errorf("ram file: %d bytes, %d blocks, %v; want 64 MiB, sparse", st.Size, st.Blocks, err)
	}
	if n := m.Info().MemoryBytes; n < 1<<20 || n > 512<<20 {
		t.Errorf("memory in use: %d", n)
	}
	// What later forks need: the daemon can read QEMU's memory map and memory.
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		t.Errorf("pagemap: %v", err)
	} else {
		f.Close()
	}
	if f, err = os.Open(fmt.Sprintf("/proc/%d/mem", pid)); err != nil {
		t.Errorf("memory: %v", err)
	} else {
		f.Close()
	}
}

// TestFullDisk makes machines on a file system without room.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	e := realEnv(t)
	if err := os.MkdirAll(e.cfg.DataDir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", e.cfg.DataDir, "tmpfs", 0, "size=256k,mode=711"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(e.cfg.DataDir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := e.provider(t)
	_, err := p.Create(t.Context(), e.spec(t))
	var stage *vm.StageError
	if !errors.Is(err, vm.ErrNoSpace) || !errors.As(err, &stage) {
		t.Fatalf("Create = %v, want ErrNoSpace with its stage", err)
	}
	t.Logf("%v", err)
	e.assertNothingLeft(t)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWorkspaceFileSystem reads the fresh disk back.
func TestWorkspaceFileSystem(t *testing.T) {
	e := realEnv(t)
	m, err := e.provider(t).Create(t.Context(), e.spec(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	raw := filepath.Join(filepath.Dir(e.base), "ws.raw")
	for _, argv := range [][]string{
		{"qemu-img", "convert", "-f", "qcow2", "-O", "raw", filepath.Join(m.Info().Dir, "workspace.qcow2"), raw},
		{"/usr/sbin/e2fsck", "-fn", raw},
	} {
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", argv, err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), "/usr/sbin/debugfs", "-R", "stat /", raw).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "User:  1000   Group:  1000") {
		t.Errorf("root of the workspace is not user 1000's: %v\n%s", err, out)
	}
	label, err := exec.CommandContext(t.Context(), "/usr/sbin/e2label", raw).CombinedOutput()
	if err != nil || strings.TrimSpace(string(label)) != "workspace" {
		t.Errorf("label %q, %v", label, err)
	}
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(m.Info().Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory is still there: %v", err)
	}
}

// TestProbes prints what doctor would say of this host.
func TestProbes(t *testing.T) {
	e := realEnv(t)
	e.cfg.Accelerator = vm.AccelAuto
	e.cfg.CgroupRoot = "/sys/fs/cgroup/deskfork-test"
	p := e.provider(t)
	c, err := p.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s, %s because %s", c.Provider, c.Version, c.Accelerator, c.AcceleratorReason)
	for _, l := range c.Limits {
		t.Logf("%-14s ok=%-5v %s | %s | %s", l.Name, l.OK, l.Detail, l.Cost, l.Fix)
	}
	var said strings.Builder
	e.cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	if _, err := e.provider(t).Capabilities(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(said.String(), "accelerator probed") {
		t.Errorf("the accelerator was probed again: %s", said.String())
	}
}
