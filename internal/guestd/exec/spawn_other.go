//go:build !linux

package exec

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
)

// cgroup does not exist here.
type cgroup struct{}

func (*cgroup) kill() bool { return false }

func (*cgroup) empty() bool { return false }

func (*cgroup) populated() bool { return true }

// family is not found here yet.
func family(*os.Process, string) []int { return nil }

// groups do not exist here.
type groups struct{ parent string }

func (*groups) take() (*cgroup, error) { return nil, nil }

func (*groups) give(*cgroup, bool) {}

func (*groups) close() {}

// UsableCgroup is "" here: there are none.
func UsableCgroup() string { return "" }

func unsupported(what string) error {
	return &guest.Error{Code: guest.CodeUnsupported, Message: what + " is not supported on this system yet"}
}

func (e *Exec) start(u account.User, path string, argv []string, with *os.ProcAttr, _ bool) error {
	err := u.Do(func() (err error) {
		e.process, err = os.StartProcess(path, argv, with)
		return err
	})
	return err
}

// awaitEnd leaves the waiting to the reaping.
func (*Exec) awaitEnd() {}

func pipe(bool) (r, w *os.File, err error) { return os.Pipe() }

func openNull() (*os.File, error) { return os.Open(os.DevNull) }

func openTerminal(account.User, uint16, uint16) (*files, error) {
	return nil, unsupported("a terminal")
}

func resize(*os.File, uint16, uint16) error { return unsupported("a terminal") }

func waiting(*os.File) int64 { return 64 << 10 }

func signalOf(name string) (syscall.Signal, error) {
	switch strings.TrimPrefix(strings.ToUpper(name), "SIG") {
	case "KILL":
		return syscall.SIGKILL, nil
	case "INT":
		return syscall.SIGINT, nil
	case "TERM":
		return syscall.SIGTERM, nil
	}
	return 0, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("signal %q is not known here; use INT, TERM or KILL", name)}
}

func isKill(sig syscall.Signal) bool { return sig == syscall.SIGKILL }

func signalGroup(leader *os.Process, sig syscall.Signal) error {
	if err := leader.Signal(sig); err != nil {
		return fmt.Errorf("signal process %d: %w", leader.Pid, err)
	}
	return nil
}

func exitOf(st *os.ProcessState) (code int, signal string) {
	if st == nil {
		return -1, ""
	}
	return st.ExitCode(), ""
}

// killTree ends the main process; its children are not found here yet.
func killTree(leader *os.Process, _ string) {
	if leader != nil {
		_ = leader.Kill() // it may have ended just now
	}
}
