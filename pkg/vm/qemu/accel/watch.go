package accel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"
)

// Marks of the probe guest on its debug console, and its exit status.
const (
	markStart  = 'S'
	markEnd    = 'E'
	exitPassed = 2*0x10 + 1
)

// mark is one byte of the guest, or the error that ended its console.
type mark struct {
	b   byte
	at  time.Time
	err error
}

// watch starts cmd, follows the guest's marks against the limits and leaves no
// process behind.
func watch(ctx context.Context, cmd *exec.Cmd, lim limits) (detail string, err error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	marks := make(chan mark, 16)
	go readMarks(out, marks) // ends with the process; drained by end
	loop, err := follow(ctx, marks, lim)
	if err != nil {
		_ = cmd.Process.Kill() // by pidfd: our own child, not reaped yet
	}
	for m := range marks {
		_ = m
	}
	_ = cmd.Wait() // its status is judged below
	if errors.Is(err, errEnded) {
		return "", fmt.Errorf("%w%s", err, tail(stderr.String()))
	}
	if err != nil {
		return "", err
	}
	if code := cmd.ProcessState.ExitCode(); code != exitPassed {
		return "", fmt.Errorf("probe guest ended with %s, want exit status %d%s", cmd.ProcessState, exitPassed, tail(stderr.String()))
	}
	return fmt.Sprintf("long mode after %d ms, 2e8 iterations in %d ms",
		(time.Since(began) - loop).Milliseconds(), loop.Milliseconds()), nil
}

func readMarks(r io.Reader, marks chan<- mark) {
	defer close(marks)
	buf := make([]byte, 1)
	for range 16 {
		if _, err := io.ReadFull(r, buf); err != nil {
			marks <- mark{err: err}
			return
		}
		marks <- mark{b: buf[0], at: time.Now()}
	}
}

func follow(ctx context.Context, marks <-chan mark, lim limits) (time.Duration, error) {
	start, err := await(ctx, marks, markStart, lim.start)
	if err != nil {
		return 0, fmt.Errorf("long mode not reached: %w", err)
	}
	end, err := await(ctx, marks, markEnd, lim.loop)
	if err != nil {
		return 0, fmt.Errorf("reached long mode but did not finish 2e8 iterations there: %w", err)
	}
	return end.Sub(start), nil
}

var errEnded = errors.New("QEMU ended")

func await(ctx context.Context, marks <-chan mark, want byte, limit time.Duration) (time.Time, error) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case m := <-marks:
		if m.err != nil {
			return time.Time{}, errEnded
		}
		if m.b != want {
			return time.Time{}, fmt.Errorf("guest said %q, want %q", m.b, want)
		}
		return m.at, nil
	case <-t.C:
		return time.Time{}, fmt.Errorf("nothing within %v", limit)
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// tail is the last line of QEMU's standard error in parentheses, or nothing.
func tail(stderr string) string {
	s := strings.TrimSpace(stderr)
	s = s[strings.LastIndexByte(s, '\n')+1:]
	if s == "" {
		return ""
	}
	return " (" + s + ")"
}
