// Package guest is the guest's end of the supervisor protocol: what a supervisor
// inside a machine runs, and what tests run in its place.
package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/supervisor"
)

// Machine is one supervisor. Its functions are set before Run.
type Machine struct {
	In  io.Reader
	Out io.Writer
	// Start runs the harness to its end and gives its exit status. It ends soon
	// after ctx.
	Start func(ctx context.Context, c supervisor.Command, h *Harness) (int, error)
	// Drain writes back what the harness left; it may be nil and is called once.
	Drain func(ctx context.Context) error
	// Heartbeat is the interval of heartbeats [10 s].
	Heartbeat time.Duration

	mu       sync.Mutex // serialises writes
	sequence int64
	failed   error
}

// emit writes one event; after a failed write nothing more is written.
func (m *Machine) emit(e supervisor.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.emitLocked(e)
}

func (m *Machine) emitLocked(e supervisor.Event) error {
	if m.failed == nil {
		m.failed = supervisor.Encode(m.Out, e)
	}
	return m.failed
}

func (m *Machine) beat() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.sequence
	m.sequence++
	return m.emitLocked(supervisor.Event{Type: supervisor.Heartbeat, Sequence: &n})
}

// ErrStopped says that the host told the supervisor to stop.
var ErrStopped = errors.New("the host stopped the supervisor")

// Run talks until the host drained or stopped it, or its input ended. It returns
// when the harness has ended too.
func (m *Machine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	h := &Harness{machine: m, answers: make(chan supervisor.Command, 1)}
	dec := supervisor.NewDecoder[supervisor.Command](m.In)
	started, drained := false, false
	for {
		c, err := dec.Next()
		if err != nil {
			cancel(err)
			if drained && errors.Is(err, io.EOF) {
				return nil
			}
			return m.fail(fmt.Errorf("read commands: %w", err))
		}
		switch c.Type {
		case supervisor.Start:
			if started {
				return m.fail(errors.New("start came twice"))
			}
			started, h.scope = true, *c.Scope
			if err := m.emit(supervisor.Event{Type: supervisor.Ready, Protocol: session.SupervisorProtocol}); err != nil {
				return err
			}
			wg.Go(func() { m.work(ctx, c, h) })
		case supervisor.CheckpointRequest:
			h.ask(c.RequestID)
		case supervisor.CheckpointCommit, supervisor.CheckpointReject:
			if !h.answer(c) {
				return m.fail(fmt.Errorf("%s for %s, which is not open", c.Type, c.CheckpointID))
			}
		case supervisor.Drain:
			if err := m.drain(ctx, &drained); err != nil {
				return m.fail(err)
			}
		case supervisor.Stop:
			cancel(ErrStopped)
			return nil
		}
	}
}

// fail says so to the host, too.
func (m *Machine) fail(err error) error {
	text := err.Error()
	return errors.Join(err, m.emit(supervisor.Event{Type: supervisor.Failure, Message: text[:min(len(text), 1024)]}))
}

// drain may be asked for twice.
func (m *Machine) drain(ctx context.Context, drained *bool) error {
	if !*drained && m.Drain != nil {
		if err := m.Drain(ctx); err != nil {
			return fmt.Errorf("drain: %w", err)
		}
	}
	*drained = true
	return m.emit(supervisor.Event{Type: supervisor.Drained})
}

// work runs the harness, with heartbeats beside it.
func (m *Machine) work(ctx context.Context, c supervisor.Command, h *Harness) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		interval := m.Heartbeat
		if interval <= 0 {
			interval = 10 * time.Second
		}
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				if m.beat() != nil {
					return
				}
			case <-done:
				return
			case <-ctx.Done():
				return
			}
		}
	})
	code, err := m.Start(ctx, c, h)
	close(done)
	wg.Wait() // no heartbeat after completed
	switch {
	case ctx.Err() != nil: // stopped: nobody waits for a word
	case err != nil:
		_ = m.fail(fmt.Errorf("harness: %w", err))
	default:
		_ = m.emit(supervisor.Event{Type: supervisor.Completed, ExitCode: &code}) // the reader sees the broken stream
	}
}

// Harness is what a running harness may ask of its supervisor.
type Harness struct {
	machine *Machine
	scope   session.Scope
	answers chan supervisor.Command

	mu       sync.Mutex
	open     string // checkpoint that its harness waits for
	answered bool   // the host's word is there
	request  string // of the host, not settled
}

func (h *Harness) ask(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.request = id
}

// Requested says whether the host wants a checkpoint at the next safe point.
func (h *Harness) Requested() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.request != ""
}

// answer passes the host's word on; false when nobody waits for it.
func (h *Harness) answer(c supervisor.Command) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open != c.CheckpointID || h.answered {
		return false
	}
	h.answered = true
	h.answers <- c
	return true
}

// Checkpoint asks for the present state to be made durable and waits for it. A
// request of the host that came before is settled with it.
func (h *Harness) Checkpoint(ctx context.Context, id, turn string) error {
	h.mu.Lock()
	if other := h.open; other != "" {
		h.mu.Unlock()
		return fmt.Errorf("checkpoint %s: %s is not answered yet", id, other)
	}
	h.open = id
	request := h.request
	h.mu.Unlock()
	err := h.machine.emit(supervisor.Event{
		Type: supervisor.Checkpoint, CheckpointID: id, SessionID: h.scope.Session, TurnID: turn, RequestID: request,
	})
	if err != nil {
		return err
	}
	select {
	case c := <-h.answers:
		h.mu.Lock()
		h.open, h.answered = "", false
		h.mu.Unlock()
		if c.Type == supervisor.CheckpointReject {
			return fmt.Errorf("checkpoint %s was rejected: %s", id, c.Message)
		}
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if request == "" {
		return nil
	}
	h.mu.Lock()
	if h.request == request {
		h.request = ""
	}
	h.mu.Unlock()
	return h.machine.emit(supervisor.Event{Type: supervisor.CheckpointCommitted, RequestID: request})
}
