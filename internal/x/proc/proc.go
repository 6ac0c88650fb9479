//go:build linux

// Package proc proves that a process is the one that was written down, so that
// a recycled pid is never signalled. An identity is pid, start time and an
// argument on the command line; it is checked behind a pidfd, which names one
// process for good.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone means that the process of an identity runs no more, whether or not
// another one has its pid now.
var ErrGone = errors.New("process is gone")

// ErrOther is the ErrGone of a pid whose process lives but lacks the marker. A
// child has no arguments yet for a moment after exec has succeeded.
var ErrOther = fmt.Errorf("%w: its pid is another's", ErrGone)

// Identity names one process of one boot of the host.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot: field 22 of /proc/PID/stat
	Boot  string `json:"boot"`  // /proc/sys/kernel/random/boot_id
	// Marker is an argument that stands alone on the process's command line
	// and on that of no other.
	Marker string `json:"marker"`
}

// Process is a live handle on one process.
type Process struct {
	id Identity

	mu sync.RWMutex // held for reading while fd is in use
	fd int          // -1 when closed
}

// Open returns a handle on the process with this identity, or ErrGone.
func Open(id Identity) (*Process, error) {
	boot, err := BootID()
	if err != nil {
		return nil, err
	}
	if id.PID <= 0 || id.Marker == "" || boot != id.Boot {
		return nil, fmt.Errorf("open process %d: %w", id.PID, ErrGone)
	}
	p, err := attach(id.PID, id.Marker)
	if err != nil {
		return nil, err
	}
	if p.id.Start != id.Start {
		p.Close()
		return nil, fmt.Errorf("open process %d: started at tick %d, not %d: %w", id.PID, p.id.Start, id.Start, ErrGone)
	}
	return p, nil
}

// Attach returns a handle on pid when marker is on its command line, or
// ErrGone. For a child whose identity was not written down yet.
func Attach(pid int, marker string) (*Process, error) {
	if pid <= 0 || marker == "" {
		return nil, fmt.Errorf("attach to process %d: %w", pid, ErrGone)
	}
	return attach(pid, marker)
}

// attach opens the pidfd first and reads /proc second: while the process
// behind the pidfd lives its pid is not recycled, so when it still lives after
// the reading, what was read is its own.
func attach(pid int, marker string) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			err = ErrGone
		}
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	p := &Process{fd: fd, id: Identity{PID: pid, Marker: marker}}
	if err := p.inspect(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Process) inspect() error {
	boot, err := BootID()
	if err != nil {
		return err
	}
	has, err := hasArgument(p.id.PID, p.id.Marker)
	if err != nil {
		return err
	}
	st, err := readStat(p.id.PID) // second, for a process without arguments may be a zombie
	if err != nil {
		return err
	}
	if st.state == 'Z' || st.state == 'X' || !p.Alive() {
		return fmt.Errorf("process %d: %w", p.id.PID, ErrGone)
	}
	if !has {
		return fmt.Errorf("process %d: %w", p.id.PID, ErrOther)
	}
	p.id.Start, p.id.Boot = st.start, boot
	return nil
}

// Identity returns what can be written down.
func (p *Process) Identity() Identity { return p.id }

// Alive reports whether the process has not ended.
func (p *Process) Alive() bool {
	ended, err := p.poll(0)
	return err == nil && !ended
}

// poll reports whether the process ended within timeout.
func (p *Process) poll(timeout time.Duration) (bool, error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return false, os.ErrClosed
	}
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(timeout.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0 && fds[0].Revents&unix.POLLIN != 0, err
}

// pollSlice bounds how long Wait ignores its context and Close.
const pollSlice = 100 * time.Millisecond

// Wait blocks until the process has ended (it may be a zombie until its parent
// reaps it) or ctx is done.
func (p *Process) Wait(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for process %d: %w", p.id.PID, err)
		}
		ended, err := p.poll(pollSlice)
		if ended || err != nil {
			return err
		}
	}
}

// Signal sends sig to this very process. ErrGone when it has ended.
func (p *Process) Signal(sig unix.Signal) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.fd < 0 {
		return os.ErrClosed
	}
	err := unix.PidfdSendSignal(p.fd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		err = ErrGone
	}
	if err != nil {
		return fmt.Errorf("signal process %d: %w", p.id.PID, err)
	}
	return nil
}

// Kill ends the process by force and waits until it has ended. nil when it had
// ended before.
func (p *Process) Kill(ctx context.Context) error {
	if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	return p.Wait(ctx)
}

// Close gives the handle back, within pollSlice; the process is not touched.
func (p *Process) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fd >= 0 {
		_ = unix.Close(p.fd)
		p.fd = -1
	}
}
