package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
)

// spawn starts QEMU in a session of its own. The process outlives ctx and us.
// Its user is set before exec, not by -runas, so that it stays dumpable and its
// memory readable to us.
func (p *Provider) spawn(ctx context.Context, l layout, args []string, cgroup *os.File) (*exec.Cmd, *proc.Process, error) {
	log, err := os.OpenFile(l.file(QEMULogFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open QEMU's log: %w", err)
	}
	defer log.Close()
	cmd := exec.CommandContext(context.WithoutCancel(ctx), p.cfg.QEMU, args...)
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: p.cfg.User.Credential()}
	if cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(cgroup.Fd())
	}
	if err := p.start(cmd); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", p.cfg.QEMU, err)
	}
	pr, err := attachChild(cmd.Process.Pid, l.uuid)
	if err != nil {
		// It ended at once: its own words say more than ours.
		_ = cmd.Process.Kill()
		return nil, nil, exitError("start", cmd, l, cmd.Wait())
	}
	adj := filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "oom_score_adj")
	if err := os.WriteFile(adj, []byte(strconv.Itoa(p.cfg.OOMScoreAdj)), 0); err != nil {
		p.cfg.Logger.Warn("OOM score of QEMU not set", "pid", cmd.Process.Pid, "error", err)
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
func (p *Provider) start(cmd *exec.Cmd) error {
	p.startMu.Lock()
	defer p.startMu.Unlock()
	was, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	if err == nil && was == 0 {
		if unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) == nil {
			defer func() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) }()
		}
	}
	var core unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_CORE, &core) == nil && core.Cur != 0 {
		if unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: core.Max}) == nil {
			defer func() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &core) }()
		}
	}
	return cmd.Start()
}

// exitError describes a child that has been waited for with result werr.
func exitError(stage string, cmd *exec.Cmd, l layout, werr error) *vm.ExitError {
	status := "unknown"
	switch {
	case cmd != nil && cmd.ProcessState != nil:
		status = cmd.ProcessState.String()
	case werr != nil:
		status = werr.Error()
	}
	return &vm.ExitError{Stage: stage, Status: status, Stderr: logTail(l.file(QEMULogFile))}
}

const tailBytes = 2 << 10

// logTail returns the end of a log, or nothing.
func logTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(max(0, end-tailBytes), io.SeekStart)
		if err != nil {
			return ""
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil {
		return ""
	}
	return string(b)
}
