// Package spawn starts QEMU processes that outlive us.
package spawn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/log"
)

// Spawner starts programs. Safe for concurrent use.
type Spawner struct {
	Program     string
	Credential  *syscall.Credential // nil: our own user
	OOMScoreAdj int
	Logger      *slog.Logger

	mu sync.Mutex // serialises fork and exec
}

// Start starts the program in a session of its own, with its output in logFile. The
// process outlives ctx and us. marker stands on its command line. Its user is
// set before exec, not by -runas, so that it stays dumpable and its memory
// readable to us. A *vm.ExitError when it ended before it was known.
func (s *Spawner) Start(ctx context.Context, args []string, marker, logFile string, cgroup *os.File) (*exec.Cmd, *proc.Process, error) {
	out, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open QEMU's log: %w", err)
	}
	defer out.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.Program, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: s.Credential}
	if cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(cgroup.Fd())
	}
	if err := s.start(cmd); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", s.Program, err)
	}
	pr, err := attachChild(cmd.Process.Pid, marker)
	if err != nil {
		_ = cmd.Process.Kill() // its own words say more than ours
		return nil, nil, ExitError("start", cmd, logFile, cmd.Wait())
	}
	adj := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "oom_score_adj")
	if err := os.WriteFile(adj, []byte(strconv.Itoa(s.OOMScoreAdj)), 0); err != nil {
		s.Logger.Warn("OOM score of QEMU not set", "pid", cmd.Process.Pid, "error", err)
	}
	return cmd, pr, nil
}

// execGrace is how long a child may be without arguments after exec succeeded:
// the kernel sets them after it has closed the descriptor that told us.
const execGrace = 2 * time.Second

func attachChild(pid int, marker string) (*proc.Process, error) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); ; <-tick.C {
		pr, err := proc.Attach(pid, marker)
		if !errors.Is(err, proc.ErrOther) || time.Since(began) > execGrace {
			return pr, err
		}
	}
}

// start forks and executes with two properties that a child inherits. Core
// dumps off: they would hold the guest's memory. Transparent huge pages off:
// they only turn sparse memory into held memory (the translation buffer above
// all). Both are properties of our whole process meanwhile, hence the lock, and
// are put back.
func (s *Spawner) start(cmd *exec.Cmd) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	if err == nil && was == 0 {
		if unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) == nil {
			defer func() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) }()
		}
	}
	// What we were started with, a lock of whoever started us for example, is not
	// for a process that outlives us. Go marks its own descriptors itself.
	_ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11: as it was
	var core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &core) == nil && core.Cur != 0 {
		if unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: core.Max}) == nil {
			defer func() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &core) }()
		}
	}
	return cmd.Start()
}

// ExitError describes a child that has been waited for with result werr; cmd is
// nil for another process's child.
func ExitError(stage string, cmd *exec.Cmd, logFile string, werr error) *vm.ExitError {
	status := "unknown"
	switch {
	case cmd != nil && cmd.ProcessState != nil:
		status = cmd.ProcessState.String()
	case werr != nil:
		status = werr.Error()
	}
	return &vm.ExitError{Stage: stage, Status: status, Stderr: log.Tail(logFile)}
}
