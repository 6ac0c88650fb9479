package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"
)

const (
	outputTail = 4 << 10         // bytes of a failed script's output that its error carries
	reapDelay  = 5 * time.Second // after a kill, for pipes that somebody else holds
	removeTime = 5 * time.Minute // for a tree to be removed
)

// sandbox runs embedded scripts with what root may do inside namespaces of their own.
type sandbox struct {
	log io.Writer
	env []string // added to each script's
}

// scriptError is a script that failed.
type scriptError struct {
	script string
	output string // its end
	err    error
}

func (e *scriptError) Error() string {
	return fmt.Sprintf("run %s: %v: %s", e.script, e.err, bytes.TrimSpace([]byte(e.output)))
}

func (e *scriptError) Unwrap() error { return e.err }

// run runs a script to its end. When ctx ends, or this process dies, all of the script's
// processes are killed and its mounts vanish with its namespace.
func (s *sandbox) run(ctx context.Context, name string, env []string, args ...string) error {
	unshare := toolPath("unshare")
	if unshare == "" {
		return missing("unshare")
	}
	text, err := script(name)
	if err != nil {
		return err
	}
	argv := []string{"--mount", "--pid", "--fork", "--kill-child=KILL"}
	if os.Geteuid() != 0 {
		if toolPath("newuidmap") == "" {
			return missing("newuidmap")
		}
		argv = append(argv, "--user", "--map-auto", "--map-root-user")
	}
	argv = append(argv, "--", "/bin/sh", "-c", text, name)
	cmd := exec.CommandContext(ctx, unshare, append(argv, args...)...)
	cmd.Env = slices.Concat([]string{"PATH=" + toolDirs, "HOME=/root", "LC_ALL=C", "TZ=UTC"}, s.env, env)
	cmd.Dir = "/"
	cmd.WaitDelay = reapDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	tail := &tailWriter{limit: outputTail}
	cmd.Stdout = io.MultiWriter(s.log, tail)
	cmd.Stderr = cmd.Stdout

	// The death signal comes when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err = cmd.Run(); err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("run %s: %w", name, ctx.Err())
	}
	return &scriptError{script: name, output: tail.String(), err: err}
}

// RemoveAll removes path and what is in it, also files of an ordinary user's subordinate
// ids: what image.Config.RemoveAll wants.
func RemoveAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, os.ErrPermission) || os.Geteuid() == 0 {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTime)
	defer cancel()
	s := sandbox{log: io.Discard}
	if err := s.run(ctx, "remove", nil, path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

func missing(tool string) error {
	for _, p := range Packages() {
		if p.Tool == tool {
			return &MissingPackageError{Package: p}
		}
	}
	return &MissingPackageError{Package: Package{Name: tool, Tool: tool, Why: "builds images"}}
}

// tailWriter keeps the last bytes written to it.
type tailWriter struct {
	limit int
	buf   []byte
}

func (t *tailWriter) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.limit; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tailWriter) String() string { return string(t.buf) }
