//go:build linux

package pages_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

// TestFullDisk runs tiny in mount namespace of its own.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "tiny", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// tiny tries everything that writes on a disk of 4 MiB.
func tiny(dir string) error {
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"),
	); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	const size = 16 << 20
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	if err := act(mem, fmt.Sprintf("fill 0 %d 1", size/page)); err != nil {
		return err
	}
	r := pages.Region{Addr: uint64(uintptr(unsafe.Pointer(&mem[0]))), Size: size}
	ctx, pid := context.Background(), os.Getpid()
	f, err := pages.Create(filepath.Join(dir, "pages"), size)
	if err != nil {
		return err
	}
	all := []pages.Run{{Off: 0, Len: size}}
	if err := f.Reserve(size); !errors.Is(err, vm.ErrNoSpace) {
		return fmt.Errorf("Reserve: %w", wrong(err))
	}
	if _, err := pages.Copy(ctx, pid, r, all, f); !errors.Is(err, vm.ErrNoSpace) {
		return fmt.Errorf("Copy: %w", wrong(err))
	}
	some := []pages.Run{{Off: 0, Len: 3 << 20}}
	if _, err := pages.Copy(ctx, pid, r, some, f); err != nil {
		return fmt.Errorf("Copy of what fits: %w", err)
	}
	whole := filepath.Join(dir, "whole")
	if err := f.Materialize(ctx, nil, whole); !errors.Is(err, vm.ErrNoSpace) {
		return fmt.Errorf("Materialize: %w", wrong(err))
	}
	if _, err := os.Stat(whole); err == nil {
		return errors.New("Materialize left a file")
	}
	if err := os.WriteFile(filepath.Join(dir, "rest"), make([]byte, 4<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", wrong(err))
	}
	if err := f.Sync(); !errors.Is(err, vm.ErrNoSpace) {
		return fmt.Errorf("Sync: %w", wrong(err))
	}
	if _, err := pages.Open(filepath.Join(dir, "pages")); !errors.Is(err, vm.ErrCorrupt) {
		return fmt.Errorf("Open of what could not be finished: %w", wrong(err))
	}
	if err := os.Remove(filepath.Join(dir, "rest")); err != nil {
		return err
	}
	return f.Close() // with room it can be finished
}

func wrong(err error) error {
	if err == nil {
		return errors.New("no error, want one")
	}
	return err
}

// TestReserveTooMuch needs a file system that counts beforehand.
func TestReserveTooMuch(t *testing.T) {
	t.Parallel()
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Fatalf("/dev/shm is no tmpfs: %v", err)
	}
	size := int64(fs.Blocks)*fs.Bsize + 1<<30
	f, err := pages.Create(filepath.Join(inMemory(t), "pages"), size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Reserve(size); !errors.Is(err, vm.ErrNoSpace) {
		t.Errorf("Reserve: %v", err)
	}
}
