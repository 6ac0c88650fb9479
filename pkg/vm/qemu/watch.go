package qemu

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/log"
	"github.com/deskfork/deskfork/pkg/vm/qemu/spawn"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

const (
	eventQueue = 256
	// reconnectPause lies between attempts to reach a QEMU whose monitor went away.
	reconnectPause = 500 * time.Millisecond
	// quitTimeout is what a QEMU gets to flush its disks after its guest is off.
	quitTimeout = 5 * time.Second
)

// watch follows the machine until its process has ended or life is over, in
// which case the process is left alone.
func (m *Machine) watch(life context.Context) {
	exited := make(chan error, 1)
	go func() { exited <- m.proc.Wait(life) }() // awaited below, on every path
	ctx, stop := context.WithCancel(life)
	followed := make(chan struct{})
	go func() { defer close(followed); m.follow(ctx) }() // awaited below
	var trims sync.WaitGroup
	trims.Go(func() {
		log.Bound(ctx, m.p.cfg.LogEvery, m.p.cfg.LogLimit, m.log, m.lay.File(incarnation.SerialLog), m.lay.File(incarnation.QEMULog))
	})
	err := <-exited
	stop()
	<-followed
	trims.Wait()
	m.release()
	if err != nil { // life is over
		m.proc.Close()
		return
	}
	m.finish()
}

// errNotOurs stands for the exit status of a process that is not our child.
var errNotOurs = errors.New("unknown, for the process was adopted")

// finish tells the world how the process ended.
func (m *Machine) finish() {
	var werr error
	if m.cmd != nil {
		werr = m.cmd.Wait()
	} else {
		werr = errNotOurs
	}
	m.mu.Lock()
	m.state = vm.StateExited
	switch {
	case m.stopping:
	case m.guestOff:
		m.err = vm.ErrGuestShutdown
	default:
		m.err = spawn.ExitError("run", m.cmd, m.lay.File(incarnation.QEMULog), werr)
	}
	err := m.err
	m.mu.Unlock()
	m.log.Info("machine ended", "cause", err)
	close(m.done) // before the handle goes: who finds it closed finds this too
	m.proc.Close()
}

// release closes what we hold of the machine.
func (m *Machine) release() {
	m.mu.Lock()
	mon, n := m.mon, m.net
	m.mon, m.net = nil, nil
	m.mu.Unlock()
	if mon != nil {
		if err := mon.Close(); err != nil {
			m.log.Warn("qmp not closed", "error", err)
		}
	}
	if n != nil {
		if err := n.Close(); err != nil {
			m.log.Warn("network not closed", "error", err)
		}
	}
}

// follow keeps a monitor connection and acts on its events until ctx is done.
func (m *Machine) follow(ctx context.Context) {
	for ctx.Err() == nil {
		m.mu.Lock()
		mon := m.mon
		m.mu.Unlock()
		if mon == nil {
			mon = m.reconnect(ctx)
		}
		if mon != nil {
			m.events(ctx, mon)
			m.drop(mon)
		}
		select {
		case <-time.After(reconnectPause):
		case <-ctx.Done():
		}
	}
}

func (m *Machine) drop(mon *qmp.Client) {
	m.mu.Lock()
	if m.mon == mon {
		m.mon = nil
	}
	m.mu.Unlock()
	if err := mon.Close(); err != nil {
		m.log.Warn("qmp not closed", "error", err)
	}
}

func (m *Machine) reconnect(ctx context.Context) *qmp.Client {
	mon, err := qmp.Dial(ctx, m.lay.Socket(incarnation.QMP), qmp.Config{})
	if err != nil {
		m.log.Debug("qmp not reached", "error", err)
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mon = mon
	return mon
}

// events asks for the state once, for what happened while nobody listened, and
// then follows the events until the connection or ctx ends.
func (m *Machine) events(ctx context.Context, mon *qmp.Client) {
	sub := mon.Subscribe(eventQueue)
	defer sub.Close()
	m.resettle(ctx, mon)
	if status, err := live.Status(ctx, mon); err == nil {
		m.setStatus(ctx, mon, status)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-sub.Events():
			if !ok {
				return
			}
			m.handle(ctx, mon, e)
		}
	}
}

func (m *Machine) handle(ctx context.Context, mon *qmp.Client, e qmp.Event) {
	switch e.Event {
	case "SHUTDOWN":
		m.log.Info("shutdown seen", "guest", e.Data["guest"], "reason", e.Data["reason"])
		if byGuest, ok := e.Data["guest"].(bool); ok && byGuest {
			m.setStatus(ctx, mon, "shutdown")
		}
	case "STOP":
		m.showState(vm.StatePaused)
	case "RESUME":
		m.showState(vm.StateRunning)
	case "BLOCK_IO_ERROR":
		m.log.Error("disk error", "node", e.Data["node-name"], "operation", e.Data["operation"], "reason", e.Data["reason"])
	case "GUEST_PANICKED":
		m.log.Error("guest panicked")
	}
}

// setStatus takes QEMU's run state (RunState of QAPI).
func (m *Machine) setStatus(ctx context.Context, mon *qmp.Client, status string) {
	switch status {
	case "running", "inmigrate":
		m.setState(vm.StateRunning)
	case "shutdown": // QEMU waits, stopped, for us to have seen it
		m.mu.Lock()
		m.guestOff = true
		m.mu.Unlock()
		m.quit(ctx, mon)
	default:
		m.showState(vm.StatePaused)
	}
}

// showState takes a state that QEMU tells of, unless a snapshot is the reason.
func (m *Machine) showState(s vm.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.hushed {
		m.state = s
	}
}

func (m *Machine) setState(s vm.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = s
}

// quit lets QEMU close its disks, or ends it when it does not.
func (m *Machine) quit(ctx context.Context, mon *qmp.Client) {
	ctx, cancel := context.WithTimeout(ctx, quitTimeout)
	defer cancel()
	if err := mon.Execute(ctx, "quit", nil, nil); err == nil && m.proc.Wait(ctx) == nil {
		return
	}
	if ctx.Err() == nil || m.proc.Alive() {
		m.log.Warn("QEMU did not quit; ending it by force")
		killCtx, cancelKill := context.WithTimeout(context.WithoutCancel(ctx), quitTimeout)
		defer cancelKill()
		if err := m.proc.Kill(killCtx); err != nil {
			m.log.Error("QEMU not ended", "error", err)
		}
	}
}
