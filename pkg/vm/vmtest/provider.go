// Package vmtest helps to test what uses machines and what provides them: an
// in-memory Provider whose machines have a small synthetic screen and a guest
// of the test's choice, and a suite that every provider passes.
package vmtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Config of the fake provider. The zero value is ready.
type Config struct {
	// Guest answers on a guest's port with the host's end of a connection; the
	// usual way is net.Pipe and a handler on the other end. nil: every port
	// echoes. An error is what the dialler gets.
	Guest func(ctx context.Context, spec vm.Spec, port int) (net.Conn, error)
	// Create is asked before a machine is made; its error is Create's. nil: all may.
	Create func(spec vm.Spec) error
	// IgnorePowerdown makes guests that do not react to Stop before its grace
	// has passed.
	IgnorePowerdown bool
	// Dir of vm.Info; serial.log and qemu.log are not written.
	Dir string
}

// Provider implements vm.Provider in memory. Its machines are "running" until
// they are stopped, destroyed, or told to end by a test.
type Provider struct {
	cfg Config

	mu       sync.Mutex
	machines map[vm.Incarnation]*Machine
	nextPID  int
}

var _ vm.Provider = (*Provider)(nil)

// New returns a provider without machines.
func New(cfg Config) *Provider {
	return &Provider{cfg: cfg, machines: make(map[vm.Incarnation]*Machine), nextPID: 1000}
}

// Create implements vm.Provider.
func (p *Provider) Create(ctx context.Context, spec vm.Spec) (vm.Machine, error) {
	if err := spec.Validate(); err != nil {
		return nil, &vm.StageError{Stage: "validate", Err: err}
	}
	if err := ctx.Err(); err != nil {
		return nil, &vm.StageError{Stage: "prepare", Err: err}
	}
	if p.cfg.Create != nil {
		if err := p.cfg.Create(spec); err != nil {
			return nil, &vm.StageError{Stage: "spawn", Err: err}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.machines[spec.Incarnation]; ok {
		return nil, &vm.StageError{Stage: "prepare", Err: fmt.Errorf("incarnation %s: %w", spec.Incarnation, vm.ErrExists)}
	}
	p.nextPID++
	m := &Machine{
		p: p, spec: spec, pid: p.nextPID, started: time.Now(), state: vm.StateRunning,
		screen: newScreen(spec.Width, spec.Height), done: make(chan struct{}),
	}
	p.machines[spec.Incarnation] = m
	return m, nil
}

// Recover implements vm.Provider: after Restart it returns the machines that
// run, before that none.
func (p *Provider) Recover(context.Context) ([]vm.Machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []vm.Machine
	for inc, m := range p.machines {
		switch {
		case m.ended():
			delete(p.machines, inc)
		case m.Info().Adopted:
			out = append(out, m)
		}
	}
	return out, nil
}

// Restart stands for a new daemon: every machine counts as adopted from now on
// and the next Recover returns those that run.
func (p *Provider) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.machines {
		m.mu.Lock()
		m.adopted = true
		m.mu.Unlock()
	}
}

// Capabilities implements vm.Provider.
func (p *Provider) Capabilities(context.Context) (vm.Capabilities, error) {
	return vm.Capabilities{
		Provider: "fake", Version: "1", Accelerator: vm.AccelTCG, AcceleratorReason: "tcg: in memory",
		Limits: []vm.Probe{{Name: "fake", OK: true, Detail: "in memory"}},
	}, nil
}

// Machine finds a machine by incarnation; nil when there is none.
func (p *Provider) Machine(inc vm.Incarnation) *Machine {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.machines[inc]
}

// Count is the number of machines that have not been destroyed.
func (p *Provider) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.machines)
}

// echo is the guest of a provider without one. It ends with the connection.
func echo() net.Conn {
	ours, theirs := net.Pipe()
	go func() { // ends when either end is closed
		_, _ = io.Copy(theirs, theirs)
		theirs.Close()
	}()
	return ours
}
