package exec

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
)

// start runs the program in a session of its own, so that its whole group can
// be signalled.
func (e *Exec) start(u account.User, path string, argv []string, with *os.ProcAttr, tty bool) error {
	handle := -1
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: tty, PidFD: &handle}
	if self := uint32(os.Geteuid()); self != u.UID {
		if self != 0 {
			return &guest.Error{Code: guest.CodePermission, Message: "guestd is not root and cannot run programs as " + u.Name}
		}
		attr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	if e.group != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(e.group.dir.Fd())
	}
	with.Sys = attr
	if e.fixed {
		defer fixAddresses()()
	}
	err := e.shield.Lower(func() (err error) {
		e.process, err = os.StartProcess(path, argv, with)
		return err
	})
	if err == nil && handle >= 0 {
		e.handle = pollable(handle, "process")
	}
	return err
}

// fixAddresses turns the randomisation of addresses off for what this thread
// starts, until undo.
func fixAddresses() (undo func()) {
	const ask, noRandomize = 0xffff_ffff, 0x4_0000
	runtime.LockOSThread()
	old, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, ask, 0, 0)
	if errno == 0 {
		// Where it is refused programs start slower: no reason not to run.
		_, _, errno = unix.RawSyscall(unix.SYS_PERSONALITY, old|noRandomize, 0, 0)
	}
	return func() {
		if errno == 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_PERSONALITY, old, 0, 0)
		}
		runtime.UnlockOSThread()
	}
}

// awaitEnd waits for the end of the process, which is still to be reaped. It
// holds no thread meanwhile, and wakes none: on an emulated processor that is
// what costs.
func (e *Exec) awaitEnd() {
	if e.handle == nil {
		return
	}
	defer e.handle.Close()
	raw, err := e.handle.SyscallConn()
	if err != nil {
		return
	}
	// Where the handle cannot be waited for, reaping waits.
	_ = raw.Read(func(fd uintptr) bool {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PIDFD, int(fd), &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		return info.Signo != 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// pollable makes a file that is waited for without a thread.
func pollable(fd int, name string) *os.File {
	// Where it does not work, waiting holds a thread.
	_ = unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), name)
}

// pipe makes a pipe for a program: its end blocks, as programs expect; ours does
// not. input says which end is the program's.
func pipe(input bool) (r, w *os.File, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if input {
		return os.NewFile(uintptr(fd[0]), "stdin"), pollable(fd[1], "stdin"), nil
	}
	return pollable(fd[0], "output"), os.NewFile(uintptr(fd[1]), "output"), nil
}

func openNull() (*os.File, error) {
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	return os.NewFile(uintptr(fd), os.DevNull), nil
}

func openTerminal(u account.User, cols, rows uint16) (*files, error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	f := &files{child: [3]*os.File{slave, slave, slave}, in: master, outs: []*os.File{master}, tty: true}
	if cols == 0 || rows == 0 {
		cols, rows = 80, 24
	}
	err = resize(master, cols, rows)
	if err == nil && uint32(os.Geteuid()) != u.UID {
		err = slave.Chown(int(u.UID), -1)
	}
	if err != nil {
		f.closeAll()
		return nil, fmt.Errorf("prepare terminal: %w", err)
	}
	return f, nil
}

func resize(tty *os.File, cols, rows uint16) error {
	if err := pty.Setsize(tty, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}

// waiting is how many bytes can be read from a pipe or terminal at once.
func waiting(f *os.File) int64 {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	var n int
	err = raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if err != nil {
		return 0
	}
	return int64(n)
}

func signalOf(name string) (syscall.Signal, error) {
	upper := strings.ToUpper(name)
	if !strings.HasPrefix(upper, "SIG") {
		upper = "SIG" + upper
	}
	if sig := unix.SignalNum(upper); sig != 0 {
		return sig, nil
	}
	return 0, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("signal %q is not known; use a name like TERM", name)}
}

func isKill(sig syscall.Signal) bool { return sig == unix.SIGKILL }

func signalGroup(leader *os.Process, sig syscall.Signal) error {
	if err := unix.Kill(-leader.Pid, sig); err != nil {
		return fmt.Errorf("signal process group %d: %w", leader.Pid, err)
	}
	return nil
}

// exitOf reads how a process ended.
func exitOf(st *os.ProcessState) (code int, signal string) {
	if st == nil {
		return -1, ""
	}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), strings.TrimPrefix(unix.SignalName(ws.Signal()), "SIG")
	}
	return st.ExitCode(), ""
}
