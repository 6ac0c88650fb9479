// Package hosttest runs a host against a provider of machines that exist in
// memory and a guestd in process, for tests of the host and of its doors.
package hosttest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Provider keeps machines in memory. They outlive the host, as real ones do.
type Provider struct {
	tb  testing.TB
	dir string

	mu       sync.Mutex
	machines map[vm.Incarnation]*Machine
	onCreate func(context.Context, vm.Spec) error
	guestOf  func(vm.Spec) guesttest.Config
}

var (
	_ vm.Provider = (*Provider)(nil)
	_ vm.Machine  = (*Machine)(nil)
)

// NewProvider makes a provider without machines.
func NewProvider(tb testing.TB) *Provider {
	tb.Helper()
	return &Provider{tb: tb, dir: tb.TempDir(), machines: make(map[vm.Incarnation]*Machine)}
}

// OnCreate makes every Create call fn first; its error is Create's.
func (p *Provider) OnCreate(fn func(context.Context, vm.Spec) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onCreate = fn
}

// GuestOf chooses the guest of a new machine.
func (p *Provider) GuestOf(fn func(vm.Spec) guesttest.Config) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.guestOf = fn
}

// Create implements vm.Provider.
func (p *Provider) Create(ctx context.Context, spec vm.Spec) (vm.Machine, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	hook, guestOf := p.onCreate, p.guestOf
	p.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, spec); err != nil {
			return nil, err
		}
	}
	var cfg guesttest.Config
	if guestOf != nil {
		cfg = guestOf(spec)
	}
	dir := filepath.Join(p.dir, string(spec.Incarnation))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of machine: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "serial.log"), []byte("booting\nlogin:\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write serial log: %w", err)
	}
	m := &Machine{provider: p, Spec: spec, dir: dir, done: make(chan struct{}), started: time.Now()}
	m.Guest = guesttest.Start(p.tb, cfg) //nolint:contextcheck // the guest lives as long as the test
	if m.Guest.Desktop != nil {
		m.Guest.Desktop.Override(DrawnWindows)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.machines[spec.Incarnation]; ok {
		return nil, vm.ErrExists
	}
	p.machines[spec.Incarnation] = m
	return m, nil
}

// Recover implements vm.Provider.
func (p *Provider) Recover(context.Context) ([]vm.Machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []vm.Machine
	for inc, m := range p.machines {
		select {
		case <-m.done:
			delete(p.machines, inc)
		default:
			m.adopted = true
			list = append(list, m)
		}
	}
	return list, nil
}

// Capabilities implements vm.Provider.
func (*Provider) Capabilities(context.Context) (vm.Capabilities, error) {
	return vm.Capabilities{
		Provider: "memory", Version: "1", Accelerator: vm.AccelKVM, AcceleratorReason: "there is nothing to emulate",
		Limits: []vm.Probe{{Name: "probe-of-a-test", OK: true, Detail: "fine"}},
	}, nil
}

// Machines returns the machines that exist.
func (p *Provider) Machines() []*Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*Machine
	for _, m := range p.machines {
		list = append(list, m)
	}
	return list
}

// Machine is one machine in memory.
type Machine struct {
	provider *Provider
	Spec     vm.Spec
	Guest    *guesttest.Guest
	dir      string
	started  time.Time
	adopted  bool

	mu        sync.Mutex
	ended     bool
	err       error
	done      chan struct{}
	onDestroy func() error
}

// Info implements vm.Machine.
func (m *Machine) Info() vm.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	state := vm.StateRunning
	if m.ended {
		state = vm.StateExited
	}
	return vm.Info{
		ID: m.Spec.ID, Incarnation: m.Spec.Incarnation, State: state, Accelerator: vm.AccelKVM,
		Shape: m.Spec.Shape, Network: m.Spec.Network, Started: m.started, Adopted: m.adopted, Dir: m.dir,
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

// End ends the machine: vm.ErrGuestShutdown, or an *vm.ExitError for a crash.
func (m *Machine) End(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return
	}
	m.ended, m.err = true, err
	m.Guest.Stop()
	close(m.done)
}

// DialGuest implements vm.Machine.
func (m *Machine) DialGuest(ctx context.Context, port int) (net.Conn, error) {
	if port != guest.Port {
		return nil, fmt.Errorf("dial port %d of a guest in memory: it has only guestd's", port)
	}
	return m.Guest.Dial(ctx)
}

// DialDisplay implements vm.Machine. There is none: see Screen.
func (m *Machine) DialDisplay(context.Context) (net.Conn, error) {
	return nil, fmt.Errorf("dial display of %s: %w", m.Spec.ID, vm.ErrNotFound)
}

// Stop implements vm.Machine.
func (m *Machine) Stop(context.Context, time.Duration) error {
	m.End(nil)
	return nil
}

// OnDestroy makes Destroy call fn first; its error is Destroy's.
func (m *Machine) OnDestroy(fn func() error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onDestroy = fn
}

// Destroy implements vm.Machine.
func (m *Machine) Destroy(context.Context) error {
	m.mu.Lock()
	hook := m.onDestroy
	m.mu.Unlock()
	if hook != nil {
		if err := hook(); err != nil {
			return err
		}
	}
	m.End(nil)
	m.provider.mu.Lock()
	defer m.provider.mu.Unlock()
	delete(m.provider.machines, m.Spec.Incarnation)
	return os.RemoveAll(m.dir)
}
