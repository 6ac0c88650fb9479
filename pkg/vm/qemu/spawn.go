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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: p.cfg.User.credential()}
	if cgroup != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(cgroup.Fd())
	}
	if err := p.start(cmd); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", p.cfg.QEMU, err)
	}
	pr, err := proc.Attach(cmd.Process.Pid, l.uuid)
	if err != nil {
		// It ended at once: its own words say more than ours.
		_ = cmd.Process.Kill()
		return nil, nil, exitError("start", cmd, l, cmd.Wait())
	}
	p.confine(pr.Identity().PID)
	return cmd, pr, nil
}

// start forks and executes with transparent huge pages off: a child inherits
// that, and in a machine they only turn sparse memory into held memory (the
// translation buffer above all). It is a property of our whole process
// meanwhile, hence the lock, and it is put back.
func (p *Provider) start(cmd *exec.Cmd) error {
	p.startMu.Lock()
	defer p.startMu.Unlock()
	was, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	if err == nil && was == 0 {
		if unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0) == nil {
			defer func() { _ = unix.Prctl(unix.PR_SET_THP_DISABLE, 0, 0, 0, 0) }()
		}
	}
	return cmd.Start()
}

// Limits of a QEMU process.
const maxFiles = 4096

// confine sets what can be set from outside. What the host refuses costs
// protection, not function: it is logged.
func (p *Provider) confine(pid int) {
	none, files := unix.Rlimit{}, unix.Rlimit{Cur: maxFiles, Max: maxFiles}
	err := errors.Join(
		unix.Prlimit(pid, unix.RLIMIT_CORE, &none, nil), // a core holds the guest's memory
		unix.Prlimit(pid, unix.RLIMIT_NOFILE, &files, nil),
		os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), []byte(strconv.Itoa(p.cfg.OOMScoreAdj)), 0),
	)
	if err != nil {
		p.cfg.Logger.Warn("QEMU not confined in full", "pid", pid, "error", err)
	}
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
