package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Probe reports why this program cannot read, compare and write the memory of
// its own children; nil when it can. It does all that to one.
func Probe() error { return ProbeAs(nil) }

// ProbeAs is Probe for children that are started with attr, as another user for
// example; nil is nothing special.
func ProbeAs(attr *syscall.SysProcAttr) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// cat stands still while nothing comes in, and its echo says that it is up.
	cmd := exec.CommandContext(ctx, "cat")
	cmd.Env = []string{}
	cmd.SysProcAttr = attr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	err := errors.Join(err1, err2)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start a process to look at: %w", err)
	}
	err = echo(in, out)
	if err == nil {
		err = examine(cmd.Process.Pid)
	}
	in.Close()
	if waited := cmd.Wait(); err == nil && waited != nil {
		err = fmt.Errorf("the process that was looked at: %w", waited)
	}
	return err
}

func echo(in io.Writer, out io.Reader) error {
	if _, err := in.Write([]byte("\n")); err != nil {
		return fmt.Errorf("talk to a process to look at: %w", err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return fmt.Errorf("talk to a process to look at: %w", err)
	}
	return nil
}

// examine reads a page of a file that the process did not change, writes to one
// that it may, and looks whether the kernel tells them apart.
func examine(pid int) error {
	all, err := mappings(pid)
	if err != nil {
		return err
	}
	same := slices.IndexFunc(all, func(m mapping) bool {
		return strings.HasPrefix(m.path, "/") && m.offset == 0 && strings.HasPrefix(m.perms, "r-")
	})
	own := slices.IndexFunc(all, func(m mapping) bool {
		return strings.HasPrefix(m.path, "/") && m.perms == "rw-p"
	})
	if same < 0 || own < 0 {
		return fmt.Errorf("process %d maps no file as programs do", pid)
	}
	if err := compare(pid, all[same]); err != nil {
		return err
	}
	if err := rewrite(pid, all[own]); err != nil {
		return err
	}
	return errors.Join(told(pid, all[same].start, 0), told(pid, all[own].start, pageSize()))
}

// told checks how much of the page at addr the kernel calls changed.
func told(pid int, addr uint64, want int64) error {
	runs, err := Changed(pid, Region{Addr: addr, Size: pageSize()})
	if err == nil && Total(runs) != want {
		err = fmt.Errorf("this kernel's pagemap does not tell changed pages: %d bytes at %#x, want %d", Total(runs), addr, want)
	}
	return err
}

// compare reads the first page of a mapped file, both ways.
func compare(pid int, m mapping) error {
	f, err := os.Open(m.path)
	if err != nil {
		return fmt.Errorf("read what a process has mapped: %w", err)
	}
	defer f.Close()
	want := make([]byte, 4096)
	n, err := io.ReadFull(f, want)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("read what a process has mapped: %w", err)
	}
	got := make([]byte, n)
	if err := once(unix.ProcessVMReadv, pid, got, m.start); err != nil {
		return failed("read the memory", pid, err)
	}
	if !bytes.Equal(got, want[:n]) {
		return fmt.Errorf("the memory of process %d at %#x is not the file %s", pid, m.start, m.path)
	}
	return nil
}

// rewrite puts into memory what is there.
func rewrite(pid int, m mapping) error {
	b := make([]byte, 8)
	if err := once(unix.ProcessVMReadv, pid, b, m.start); err != nil {
		return failed("read the memory", pid, err)
	}
	if err := once(unix.ProcessVMWritev, pid, b, m.start); err != nil {
		return failed("write the memory", pid, err)
	}
	return nil
}

func once(call func(int, []unix.Iovec, []unix.RemoteIovec, uint) (int, error), pid int, b []byte, addr uint64) error {
	local := unix.Iovec{Base: &b[0]}
	local.SetLen(len(b))
	n, err := call(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}, 0)
	if err == nil && n != len(b) {
		err = unix.EFAULT
	}
	return err
}
