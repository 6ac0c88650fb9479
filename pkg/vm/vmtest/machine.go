package vmtest

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Machine is a fake machine.
type Machine struct {
	p       *Provider
	spec    vm.Spec
	pid     int
	started time.Time
	screen  *Screen
	done    chan struct{}

	mu      sync.Mutex
	state   vm.State
	adopted bool
	err     error
	conns   []net.Conn // closed with the machine
}

var _ vm.Machine = (*Machine)(nil)

// Spec is what the machine was made from.
func (m *Machine) Spec() vm.Spec { return m.spec }

// Screen is the machine's display, to draw on and to see what was typed.
func (m *Machine) Screen() *Screen { return m.screen }

// PowerOff ends the machine as its guest would.
func (m *Machine) PowerOff() { m.end(vm.ErrGuestShutdown) }

// Crash ends the machine as a hypervisor that dies with these words.
func (m *Machine) Crash(stderr string) {
	m.end(&vm.ExitError{Stage: "run", Status: "exit status 1", Stderr: stderr})
}

// SetState shows another state, e.g. paused.
func (m *Machine) SetState(s vm.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
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
	return vm.Info{
		ID: m.spec.ID, Incarnation: m.spec.Incarnation, State: m.state, Accelerator: vm.AccelTCG,
		Shape: m.spec.Shape, Network: m.spec.Network, PID: m.pid, Started: m.started,
		Adopted: m.adopted, Dir: m.p.cfg.Dir, MemoryBytes: 1 << 20, DiskBytes: 1 << 20,
	}
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
	if m.p.cfg.Guest == nil {
		return m.keep(echo())
	}
	c, err := m.p.cfg.Guest(ctx, m.spec, port)
	if err != nil {
		return nil, fmt.Errorf("dial guest port %d: %w", port, err)
	}
	return m.keep(c)
}

// DialDisplay implements vm.Machine.
func (m *Machine) DialDisplay(ctx context.Context) (net.Conn, error) {
	if err := m.dialable(ctx); err != nil {
		return nil, fmt.Errorf("dial display: %w", err)
	}
	ours, theirs := net.Pipe()
	go m.screen.serve(theirs) // ends with the connection, which ends with the machine
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
	m.end(nil)
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	if m.p.machines[m.spec.Incarnation] == m {
		delete(m.p.machines, m.spec.Incarnation)
	}
	return nil
}
