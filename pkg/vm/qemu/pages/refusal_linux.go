package pages

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
)

// failed puts into words why something could not be done with process pid:
// vm.ErrGone when it has ended, fs.ErrPermission and the reason when the kernel
// refuses.
func failed(what string, pid int, err error) error {
	missing := errors.Is(err, fs.ErrNotExist)
	switch {
	case errors.Is(err, unix.ESRCH), missing && errors.Is(unix.Kill(pid, 0), unix.ESRCH):
		err = vm.ErrGone
	case missing:
		err = fmt.Errorf("%w: /proc does not show it%s", fs.ErrPermission, hidden(readText("/proc/self/mountinfo")))
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%w: %s", err, reason(readText("/proc/sys/kernel/yama/ptrace_scope"), mayTrace(readText("/proc/self/status"))))
	case errors.Is(err, unix.EFAULT):
		err = fmt.Errorf("%w: it has no such memory any more, or the pages file lacks its own", err)
	}
	return fmt.Errorf("%s of process %d: %w", what, pid, err)
}

// readText is the content of a file of /proc; empty when there is none.
func readText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// reason says why the kernel may refuse the memory of a process, and what to do.
func reason(scope string, mayTrace bool) string {
	switch {
	case scope == "3":
		return "kernel.yama.ptrace_scope is 3, which forbids it to everybody until the host boots with another value"
	case mayTrace:
		return "although this process has CAP_SYS_PTRACE: look for a seccomp filter, a security module or another user namespace"
	case scope == "2":
		return "kernel.yama.ptrace_scope is 2: set it to 1 or 0, or give this program CAP_SYS_PTRACE"
	case scope == "1":
		return "kernel.yama.ptrace_scope is 1 and allows only descendants, which a process adopted after a restart is not: set it to 0, or give this program CAP_SYS_PTRACE"
	default:
		return "it runs as another user or is not dumpable: run both as one user, or give this program CAP_SYS_PTRACE"
	}
}

// mayTrace looks for CAP_SYS_PTRACE in /proc/self/status.
func mayTrace(status string) bool {
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return err == nil && caps>>unix.CAP_SYS_PTRACE&1 == 1
		}
	}
	return false
}

// hidden looks for the mount option of /proc that hides others' processes.
func hidden(mountinfo string) string {
	for line := range strings.Lines(mountinfo) {
		f := strings.Fields(line)
		if len(f) < 5 || f[4] != "/proc" {
			continue
		}
		for option := range strings.SplitSeq(f[len(f)-1], ",") {
			if strings.HasPrefix(option, "hidepid=") && option != "hidepid=0" && option != "hidepid=off" {
				return ", for it is mounted with " + option + ": remount it with hidepid=0, or with gid= a group of this program"
			}
		}
	}
	return ""
}
