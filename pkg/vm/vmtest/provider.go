// Package vmtest helps to test what uses machines and what provides them: an
// in-memory Provider whose machines have a small synthetic screen and a guest
// of the test's choice, and a suite that every provider passes.
package vmtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmtest/screen"
)

// Config of the fake provider. The zero value is ready.
type Config struct {
	// Guest answers on a port of a machine's guest with the host's end of a
	// connection; the usual way is net.Pipe and a handler on the other end. A
	// clone says by its Origin whose guest it goes on with. nil: every port
	// echoes. An error is what the dialler gets.
	Guest func(ctx context.Context, m *Machine, port int) (net.Conn, error)
	// Create is asked before a machine is made; its error is Create's. nil: all may.
	Create func(ctx context.Context, spec vm.Spec) error
	// Snapshot is asked before a machine is sealed, Clone before a clone is
	// loaded; their errors are the caller's. nil: all may.
	Snapshot func(ctx context.Context, m *Machine, spec vm.SnapshotSpec) error
	Clone    func(ctx context.Context, spec vm.CloneSpec) error
	// Born is told of every machine before anybody else knows it. nil: nobody is.
	Born func(m *Machine) error
	// Destroy is asked before a machine is destroyed; its error is Destroy's.
	Destroy func(m *Machine) error
	// Accelerator of all machines. Default vm.AccelTCG.
	Accelerator vm.Accelerator
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

	mu        sync.Mutex
	machines  map[vm.Incarnation]*Machine
	snapshots map[vm.SnapshotID]*sealed
	nextPID   int
	class     vm.HostClass
	restarted bool // and not recovered since
}

var _ vm.Provider = (*Provider)(nil)

// New returns a provider without machines.
func New(cfg Config) *Provider {
	cfg.Accelerator = cmp.Or(cfg.Accelerator, vm.AccelTCG)
	return &Provider{
		cfg: cfg, machines: make(map[vm.Incarnation]*Machine), snapshots: make(map[vm.SnapshotID]*sealed), nextPID: 1000,
		class: vm.HostClass{Provider: "fake", Version: "1", Machine: "memory", CPU: "none", Accelerator: cfg.Accelerator},
	}
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
		if err := p.cfg.Create(ctx, spec); err != nil {
			return nil, staged("spawn", err)
		}
	}
	d, err := newDisk(spec.Workspace)
	if err != nil {
		return nil, staged("workspace-disk", err)
	}
	return p.add(spec, vm.StateRunning, nil, d)
}

// staged is err with a stage, unless it names one.
func staged(stage string, err error) error {
	if e, ok := errors.AsType[*vm.StageError](err); ok {
		return e
	}
	return &vm.StageError{Stage: stage, Err: err}
}

// add makes a machine known. origin is what it was cloned from, if anything.
func (p *Provider) add(spec vm.Spec, state vm.State, origin *sealed, d *diskState) (*Machine, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.machines[spec.Incarnation]; ok {
		return nil, &vm.StageError{Stage: "prepare", Err: fmt.Errorf("incarnation %s: %w", spec.Incarnation, vm.ErrExists)}
	}
	p.nextPID++
	m := &Machine{
		p: p, spec: spec, pid: p.nextPID, started: time.Now(), state: state, origin: origin, disk: d,
		screen: screen.New(spec.Width, spec.Height), done: make(chan struct{}), runs: make(chan struct{}),
	}
	if state == vm.StateRunning {
		close(m.runs)
	}
	if origin != nil {
		m.screen.Draw(origin.screen)
	}
	if p.cfg.Born != nil {
		if err := p.cfg.Born(m); err != nil {
			return nil, &vm.StageError{Stage: "spawn", Err: err}
		}
	}
	p.machines[spec.Incarnation] = m
	return m, nil
}

// Recover implements vm.Provider: after Restart it returns the machines that
// run, before that none. Snapshots that were not kept are gone after it.
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
	if p.restarted {
		p.restarted = false
		maps.DeleteFunc(p.snapshots, func(_ vm.SnapshotID, s *sealed) bool { return !s.Kept })
	}
	return out, nil
}

// Restart stands for a new daemon: every machine counts as adopted from now on
// and the next Recover returns those that run.
func (p *Provider) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.restarted = true
	for _, m := range p.machines {
		m.mu.Lock()
		m.adopted, m.egress = true, 0
		m.mu.Unlock()
	}
}

// Capabilities implements vm.Provider.
func (p *Provider) Capabilities(context.Context) (vm.Capabilities, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return vm.Capabilities{
		Provider: p.class.Provider, Version: p.class.Version, Accelerator: p.class.Accelerator, AcceleratorReason: "in memory",
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
