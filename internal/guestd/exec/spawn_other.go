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

func newCgroup(string, string) (*cgroup, error) { return nil, nil }

func (*cgroup) remove() bool { return true }

// UsableCgroup is "" here: there are none.
func UsableCgroup() string { return "" }

func unsupported(what string) error {
	return &guest.Error{Code: guest.CodeUnsupported, Message: what + " is not supported on this system yet"}
}

func (e *Exec) start(u account.User, _ bool) error {
	if err := u.Do(func() error { return nil }); err != nil {
		return err
	}
	return e.cmd.Start()
}

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
func killTree(leader *os.Process, _ string, _ *cgroup) {
	if leader != nil {
		_ = leader.Kill() // it may have ended just now
	}
}
