package qemu

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// Machine implements vm.Machine.
type Machine struct {
	p    *Provider
	lay  incarnation.Home
	proc *proc.Process
	cmd  *exec.Cmd // nil when adopted: another process's child
	log  *slog.Logger

	adopted   bool
	destroyMu chan struct{} // holds one token: the right to destroy
	gone      bool          // destroyed; for the holder of that token
	turn      chan struct{} // holds one token: the right to stop and change the machine
	flat      *flattening   // in progress, perhaps; for the holder of that token
	done      chan struct{}

	journalMu sync.Mutex // held while the journal is written; before mu

	mu       sync.Mutex
	j        incarnation.Journal // as on disk
	hushed   bool                // a snapshot is being taken: the pause is not shown
	state    vm.State
	mon      *qmp.Client // nil while there is no connection
	net      Network     // nil: none, or closed
	netErr   error       // why an adopted machine has no network
	stopping bool        // Stop or Destroy was called
	guestOff bool        // the guest switched itself off
	err      error       // of Err
}

var _ vm.Machine = (*Machine)(nil)

func newMachine(p *Provider, l incarnation.Home, j incarnation.Journal, pr *proc.Process) *Machine {
	m := &Machine{
		p: p, lay: l, j: j, proc: pr, state: vm.StateRunning,
		log:       p.cfg.Logger.With("desktop", l.ID, "incarnation", l.Inc, "pid", pr.Identity().PID),
		destroyMu: make(chan struct{}, 1), turn: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if j.Paused {
		m.state = vm.StatePaused
	}
	m.destroyMu <- struct{}{}
	m.turn <- struct{}{}
	return m
}

// Info implements vm.Machine.
func (m *Machine) Info() vm.Info {
	m.mu.Lock()
	state, j, n := m.state, m.j, m.net
	m.mu.Unlock()
	info := vm.Info{
		ID: m.lay.ID, Incarnation: m.lay.Inc, State: state, Accelerator: j.Accelerator,
		Shape: j.Shape, Network: j.Network, PID: m.proc.Identity().PID,
		Started: j.Started, Adopted: m.adopted, Dir: m.lay.Dir, DiskBytes: incarnation.Allocated(m.lay.Dir), Snapshot: j.Snapshot,
	}
	info.Template, _ = j.Template.Split()
	if state != vm.StateExited {
		info.MemoryBytes, _ = proc.Memory(info.PID) // 0 when it ends just now
	}
	if e, ok := n.(interface{ Egress() int64 }); ok {
		info.EgressBytes = e.Egress()
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

func (m *Machine) ended() bool {
	select {
	case <-m.done:
		return true
	default:
		return false
	}
}

// dialTimeout bounds a dial, before scaling.
const dialTimeout = 5 * time.Second

// DialGuest implements vm.Machine.
func (m *Machine) DialGuest(ctx context.Context, port int) (net.Conn, error) {
	m.mu.Lock()
	n, netErr := m.net, m.netErr
	m.mu.Unlock()
	switch {
	case m.ended():
		return nil, fmt.Errorf("dial guest port %d: %w", port, vm.ErrGone)
	case netErr != nil:
		return nil, fmt.Errorf("dial guest port %d: %w: %w", port, vm.ErrNoNetwork, netErr)
	case n == nil:
		return nil, fmt.Errorf("dial guest port %d: %w", port, vm.ErrNoNetwork)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout*time.Duration(m.facts().Accelerator.TimeoutScale()))
	defer cancel()
	conn, err := n.DialContext(ctx, "tcp", net.JoinHostPort(vm.GuestIP, strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("dial guest port %d: %w", port, err)
	}
	return conn, nil
}

// DialDisplay implements vm.Machine.
func (m *Machine) DialDisplay(ctx context.Context) (net.Conn, error) {
	if m.ended() {
		return nil, fmt.Errorf("dial display: %w", vm.ErrGone)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", m.lay.Socket(incarnation.VNC))
	if err != nil {
		return nil, fmt.Errorf("dial display: %w", err)
	}
	return conn, nil
}

// powerdownTimeout bounds the request, not the guest's obedience.
const powerdownTimeout = 3 * time.Second

// Stop implements vm.Machine.
func (m *Machine) Stop(ctx context.Context, grace time.Duration) error {
	mon := m.beginStop()
	if m.ended() {
		return nil
	}
	if mon != nil && grace > 0 {
		off, err := m.askOff(ctx, mon, grace)
		if off || err != nil {
			return err
		}
	}
	return m.kill(ctx)
}

// pressAgain: a guest that still boots does not hear the first press.
const pressAgain = 10 * time.Second

// askOff presses the power button until the machine has ended or grace has passed.
func (m *Machine) askOff(ctx context.Context, mon *qmp.Client, grace time.Duration) (bool, error) {
	end := time.NewTimer(grace)
	defer end.Stop()
	again := time.NewTicker(pressAgain)
	defer again.Stop()
	for {
		if err := m.powerdown(ctx, mon); err != nil {
			m.log.Warn("power button not pressed", "error", err)
		}
		select {
		case <-m.done:
			return true, nil
		case <-end.C:
			return false, nil
		case <-again.C:
		case <-ctx.Done():
			return false, fmt.Errorf("wait for the guest to power off: %w", ctx.Err())
		}
	}
}

func (m *Machine) beginStop() *qmp.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopping = true
	return m.mon
}

func (m *Machine) powerdown(ctx context.Context, mon *qmp.Client) error {
	ctx, cancel := context.WithTimeout(ctx, powerdownTimeout)
	defer cancel()
	return mon.Execute(ctx, "system_powerdown", nil, nil)
}

// kill ends the process by force and waits for the watcher to have noticed.
func (m *Machine) kill(ctx context.Context) error {
	if m.ended() {
		return nil
	}
	if err := m.proc.Kill(ctx); err != nil && !m.ended() {
		return fmt.Errorf("end QEMU: %w", err)
	}
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of QEMU: %w", ctx.Err())
	}
}

// Destroy implements vm.Machine.
func (m *Machine) Destroy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	select {
	case <-m.destroyMu:
	case <-ctx.Done():
		return fmt.Errorf("wait for another destroy: %w", ctx.Err())
	}
	defer func() { m.destroyMu <- struct{}{} }()
	if m.gone {
		return nil
	}
	m.beginStop()
	if err := m.record(func(j *incarnation.Journal) { j.Phase = incarnation.Destroying }); err != nil {
		// Without it a crash now would have the machine adopted again, no more.
		m.log.Warn("destroy not journalled", "error", err)
	}
	m.p.cfg.Trace("destroy/mark")
	if err := m.kill(ctx); err != nil {
		return &vm.StageError{Stage: "process", Err: err}
	}
	select {
	case <-m.turn: // a snapshot that is being finished needs files of ours
	case <-ctx.Done():
		return &vm.StageError{Stage: "process", Err: fmt.Errorf("wait for a snapshot: %w", ctx.Err())}
	}
	defer func() { m.turn <- struct{}{} }()
	m.settleFlattening()
	if err := m.p.remove(ctx, m.lay, nil, "destroy/"); err != nil {
		return &vm.StageError{Stage: "remove", Err: err}
	}
	m.p.forget(m.lay.Inc)
	m.gone = true
	if err := m.p.collect(); err != nil {
		m.log.Error("snapshots that nothing needs not removed", "error", err)
	}
	return nil
}
