package qemu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// Pause implements vm.Pauser. The journal is written first: a machine found
// stopped is not let go on when its caller wanted it so.
func (m *Machine) Pause(ctx context.Context) error {
	mon, done, err := m.control(ctx)
	if err != nil {
		return fmt.Errorf("pause machine: %w", err)
	}
	defer done()
	err = m.record(func(j *incarnation.Journal) { j.Paused = true })
	if err == nil {
		err = live.Stop(ctx, mon)
	}
	if err != nil {
		return fmt.Errorf("pause machine: %w", err)
	}
	m.setState(vm.StatePaused)
	return nil
}

// Resume implements vm.Pauser.
func (m *Machine) Resume(ctx context.Context) error {
	mon, done, err := m.control(ctx)
	if err != nil {
		return fmt.Errorf("resume machine: %w", err)
	}
	defer done()
	if err := live.Cont(ctx, mon); err != nil {
		return fmt.Errorf("resume machine: %w", err)
	}
	m.setState(vm.StateRunning)
	if err := m.record(func(j *incarnation.Journal) { j.Paused = false }); err != nil {
		return fmt.Errorf("resume machine: %w", err)
	}
	return nil
}

// monitorPatience is how long a lost monitor connection is waited for.
const monitorPatience = 5 * time.Second

var errNoMonitor = errors.New("QEMU's monitor does not answer")

// control gives the right to stop and change the machine, one at a time, and a
// monitor. Who has it calls done.
func (m *Machine) control(ctx context.Context) (mon *qmp.Client, done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	select {
	case <-m.turn:
	case <-m.done:
		return nil, nil, vm.ErrGone
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait for another change of the machine: %w", ctx.Err())
	}
	done = func() { m.turn <- struct{}{} }
	ctx, stop := context.WithTimeout(ctx, monitorPatience)
	defer stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		m.mu.Lock()
		mon, ending := m.mon, m.stopping
		m.mu.Unlock()
		switch {
		case ending || m.ended():
			done()
			return nil, nil, vm.ErrGone
		case mon != nil && mon.Err() == nil:
			if err := m.settle(ctx, mon); err != nil {
				done()
				return nil, nil, fmt.Errorf("settle a cut-off snapshot: %w", err)
			}
			return mon, done, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			done()
			return nil, nil, fmt.Errorf("%w: %w", errNoMonitor, ctx.Err())
		}
	}
}

// resettle ends a cut-off seal once a monitor is there again, unless a seal is in
// progress.
func (m *Machine) resettle(ctx context.Context, mon *qmp.Client) {
	if m.facts().Sealing == nil {
		return
	}
	select {
	case <-m.turn:
	default:
		return
	}
	defer func() { m.turn <- struct{}{} }()
	if err := m.settle(ctx, mon); err != nil {
		m.log.Error("cut-off snapshot not settled; tried again", "error", err)
	}
}

// facts is the journal as it is now.
func (m *Machine) facts() incarnation.Journal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.j
}

// record changes the journal, on disk first.
func (m *Machine) record(change func(*incarnation.Journal)) error {
	m.journalMu.Lock()
	defer m.journalMu.Unlock()
	j := m.facts()
	change(&j)
	if err := j.Write(m.lay); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.j = j
	return nil
}

// hush keeps a pause that belongs to a snapshot out of what Info shows.
func (m *Machine) hush(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hushed = on
}
