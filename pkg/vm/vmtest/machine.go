package vmtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmtest/screen"
)

// Screen is the display of a fake machine.
type Screen = screen.Screen

// Event is what came in through it.
type Event = screen.Event

// Machine is a fake machine.
type Machine struct {
	p       *Provider
	spec    vm.Spec
	pid     int
	started time.Time
	screen  *Screen
	disk    *diskState
	origin  *sealed // nil after a cold boot
	done    chan struct{}

	mu      sync.Mutex
	state   vm.State
	adopted bool
	err     error
	egress  int64
	conns   []net.Conn    // closed with the machine
	runs    chan struct{} // closed while the vCPUs run
}

var (
	_ vm.Machine = (*Machine)(nil)
	_ vm.Pauser  = (*Machine)(nil)
)

// Spec is what the machine was made from.
func (m *Machine) Spec() vm.Spec { return m.spec }

// Screen is the machine's display, to draw on and to see what was typed.
func (m *Machine) Screen() *Screen { return m.screen }

// Send counts bytes as sent to the world by the guest, until the daemon restarts.
func (m *Machine) Send(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.egress += bytes
}

// PowerOff ends the machine as its guest would.
func (m *Machine) PowerOff() { m.end(vm.ErrGuestShutdown) }

// End ends the machine for a cause that Err then says.
func (m *Machine) End(cause error) { m.end(cause) }

// Origin is the machine whose instant this one was cloned from, nil after a cold
// boot or an import, and the snapshot in between.
func (m *Machine) Origin() (*Machine, vm.SnapshotID) {
	if m.origin == nil {
		return nil, ""
	}
	return m.origin.of, m.origin.ID
}

// Crash ends the machine as a hypervisor that dies with these words.
func (m *Machine) Crash(stderr string) {
	m.end(&vm.ExitError{Stage: "run", Status: "exit status 1", Stderr: stderr})
}

// Pause implements vm.Pauser.
func (m *Machine) Pause(ctx context.Context) error { return m.setRunning(ctx, false) }

// Resume implements vm.Pauser.
func (m *Machine) Resume(ctx context.Context) error { return m.setRunning(ctx, true) }

func (m *Machine) setRunning(ctx context.Context, run bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.state == vm.StateExited:
		return vm.ErrGone
	case run && m.state == vm.StatePaused:
		m.state = vm.StateRunning
		close(m.runs)
	case !run && m.state == vm.StateRunning:
		m.state = vm.StatePaused
		m.runs = make(chan struct{})
	}
	return nil
}

// running is closed while the vCPUs run.
func (m *Machine) running() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs
}

func (m *Machine) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

func (m *Machine) end(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == vm.StateExited {
		return
	}
	m.state, m.err = vm.StateExited, cause
	for _, c := range m.conns {
		c.Close()
	}
	m.conns = nil
	close(m.done)
}

// Info implements vm.Machine.
func (m *Machine) Info() vm.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	info := vm.Info{
		ID: m.spec.ID, Incarnation: m.spec.Incarnation, State: m.state, Accelerator: m.p.cfg.Accelerator,
		Shape: m.spec.Shape, Network: m.spec.Network, PID: m.pid, Started: m.started,
		Adopted: m.adopted, Dir: m.p.cfg.Dir, MemoryBytes: 1 << 20, DiskBytes: 1 << 20,
		EgressBytes: m.egress,
	}
	if m.origin != nil {
		info.Snapshot, info.Template = m.origin.ID, m.origin.Template
	}
	return info
}

// Done implements vm.Machine.
func (m *Machine) Done() <-chan struct{} { return m.done }

// Err implements vm.Machine.
func (m *Machine) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}

// keep ties a connection to the machine's life.
func (m *Machine) keep(c net.Conn) (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == vm.StateExited {
		c.Close()
		return nil, vm.ErrGone
	}
	m.conns = append(m.conns, c)
	return c, nil
}

// DialGuest implements vm.Machine.
func (m *Machine) DialGuest(ctx context.Context, port int) (net.Conn, error) {
	if err := m.dialable(ctx); err != nil {
		return nil, fmt.Errorf("dial guest port %d: %w", port, err)
	}
	select { // a guest that stands still answers nobody
	case <-m.running():
	case <-m.done:
		return nil, fmt.Errorf("dial guest port %d: %w", port, vm.ErrGone)
	case <-ctx.Done():
		return nil, fmt.Errorf("dial guest port %d: %w", port, ctx.Err())
	}
	if m.p.cfg.Guest == nil {
		return m.keep(m.gated(echo()))
	}
	c, err := m.p.cfg.Guest(ctx, m, port)
	if err != nil {
		return nil, fmt.Errorf("dial guest port %d: %w", port, err)
	}
	return m.keep(m.gated(c))
}

// gated lets the guest's answers through while the vCPUs run.
func (m *Machine) gated(guest net.Conn) net.Conn {
	ours, theirs := net.Pipe()
	go func() { // ends with either end
		_, _ = io.Copy(guest, theirs)
		guest.Close()
	}()
	go func() { // ends with either end, or with the machine
		defer theirs.Close()
		defer guest.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := guest.Read(buf)
			select {
			case <-m.running():
			case <-m.done:
				return
			}
			if _, werr := theirs.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}()
	return ours
}

// DialDisplay implements vm.Machine.
func (m *Machine) DialDisplay(ctx context.Context) (net.Conn, error) {
	if err := m.dialable(ctx); err != nil {
		return nil, fmt.Errorf("dial display: %w", err)
	}
	ours, theirs := net.Pipe()
	go m.screen.Serve(theirs) // ends with the connection, which ends with the machine
	return m.keep(ours)
}

func (m *Machine) dialable(ctx context.Context) error {
	if m.ended() {
		return vm.ErrGone
	}
	return ctx.Err()
}

// Stop implements vm.Machine.
func (m *Machine) Stop(ctx context.Context, grace time.Duration) error {
	if m.p.cfg.IgnorePowerdown && grace > 0 {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-t.C:
		case <-m.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for the guest to power off: %w", ctx.Err())
		}
	}
	m.end(nil)
	return nil
}

// Destroy implements vm.Machine.
func (m *Machine) Destroy(context.Context) error {
	if m.p.cfg.Destroy != nil {
		if err := m.p.cfg.Destroy(m); err != nil {
			return err
		}
	}
	m.end(nil)
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	if m.p.machines[m.spec.Incarnation] == m {
		delete(m.p.machines, m.spec.Incarnation)
	}
	return nil
}
