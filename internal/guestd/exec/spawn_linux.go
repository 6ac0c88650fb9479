package exec

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
)

// start runs the program in a session of its own, so that its whole group can
// be signalled.
func (e *Exec) start(u account.User, tty bool) error {
	attr := &syscall.SysProcAttr{Setsid: true, Setctty: tty}
	if self := uint32(os.Geteuid()); self != u.UID {
		if self != 0 {
			return &guest.Error{Code: guest.CodePermission, Message: "guestd is not root and cannot run programs as " + u.Name}
		}
		attr.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	if e.group != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(e.group.dir.Fd())
	}
	e.cmd.SysProcAttr = attr
	return e.shield.Lower(e.cmd.Start)
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
