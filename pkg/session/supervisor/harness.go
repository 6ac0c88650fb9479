package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// sendLimit is how long a command may take to be read.
const sendLimit = 30 * time.Second

// errIdle: nothing came in time.
var errIdle = errors.New("the supervisor said nothing in time")

// harness is the host's side of one supervised harness. It belongs to the goroutine
// of drive; requests come over a channel.
type harness struct {
	run  session.HarnessRun
	link *link

	requests chan *request
	open     *request // asked for and not settled
	// committing is the id of the checkpoint under way, empty for none.
	committing string
	committed  chan verdict
}

// verdict is what became of a checkpoint; nil for published.
type verdict struct{ err error }

// request is one demand for a checkpoint.
type request struct {
	id   string
	done chan error
}

// drive is the whole conversation; nil is a harness that completed and drained.
func (h *harness) drive(ctx context.Context) error {
	over := make(chan struct{})
	defer close(over)
	if err := h.link.send(ctx, h.start(), sendLimit); err != nil {
		return err
	}
	if err := h.ready(ctx); err != nil {
		return err
	}
	if h.run.OnRequester != nil {
		h.run.OnRequester(func(ctx context.Context, id string) error { return h.request(ctx, id, over) })
	}
	err := h.work(ctx)
	h.settle(err)
	if h.committing != "" {
		// It ends with ctx, or has been given up by whoever publishes.
		select {
		case <-h.committed:
		case <-time.After(h.link.grace):
		}
	}
	if err != nil {
		return err
	}
	return h.drain(ctx)
}

func (h *harness) start() Command {
	scope := h.run.Tenure.Scope
	c := Command{
		Type: Start, Scope: &scope, Harness: &Harness{ID: h.run.Driver.HarnessID, Version: h.run.Driver.Version},
		WorkspacePath: h.run.WorkspacePath,
	}
	if h.run.OutputPath != "" {
		c.OutputPath = &h.run.OutputPath
	}
	return c
}

// request asks for a checkpoint and waits until it is settled.
func (h *harness) request(ctx context.Context, id string, over <-chan struct{}) error {
	q := &request{id: id, done: make(chan error, 1)}
	select {
	case h.requests <- q:
	case <-over:
		return nil // it came to its end, with a final checkpoint of its own
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-q.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle answers the open request.
func (h *harness) settle(err error) {
	if h.open != nil {
		h.open.done <- err
		h.open = nil
	}
}

// event waits for the next event until the timer, which is stopped then.
func (h *harness) event(ctx context.Context, limit *time.Timer) (Event, error) {
	select {
	case e := <-h.link.events:
		return e, nil
	default:
	}
	select {
	case e := <-h.link.events:
		return e, nil
	case <-h.link.broken:
		return Event{}, h.lost()
	case <-limit.C:
		return Event{}, errIdle
	case <-ctx.Done():
		return Event{}, context.Cause(ctx)
	}
}

func (h *harness) lost() error {
	if errors.Is(h.link.why, io.EOF) {
		return errors.New("the supervisor ended before the harness did")
	}
	return fmt.Errorf("read supervisor: %w", h.link.why)
}

// ready waits for the first word; other events before it are ignored.
func (h *harness) ready(ctx context.Context) error {
	limit := time.NewTimer(h.run.Driver.ReadyTimeout)
	defer limit.Stop()
	for {
		e, err := h.event(ctx, limit)
		switch {
		case err != nil:
			return fmt.Errorf("wait for ready: %w", err)
		case e.Type == Failure:
			return fmt.Errorf("the supervisor failed before it was ready: %s", e.Message)
		case e.Type == Ready && e.Protocol != session.SupervisorProtocol:
			return fmt.Errorf("the supervisor speaks %q, not %s", e.Protocol, session.SupervisorProtocol)
		case e.Type == Ready:
			return nil
		}
	}
}

// work is the time from ready to completed.
func (h *harness) work(ctx context.Context) error {
	idle := h.run.Driver.HeartbeatTimeout
	limit := time.NewTimer(idle)
	defer limit.Stop()
	for {
		beat := limit.C
		if h.committing != "" {
			beat = nil // the guest waits for us
		}
		select {
		case e := <-h.link.events:
			limit.Reset(idle)
			if e.Type == Completed && *e.ExitCode == 0 && h.committing == "" {
				return nil
			}
			if err := h.on(ctx, e); err != nil {
				return err
			}
		case <-h.link.broken:
			return h.lost()
		case <-beat:
			return fmt.Errorf("wait for a heartbeat: %w", errIdle)
		case <-ctx.Done():
			return context.Cause(ctx)
		case q := <-h.requests:
			if err := h.ask(ctx, q); err != nil {
				return err
			}
		case v := <-h.committed:
			limit.Reset(idle)
			if err := h.answer(ctx, v.err); err != nil {
				return err
			}
		}
	}
}

// on is one event between ready and completed.
func (h *harness) on(ctx context.Context, e Event) error {
	switch e.Type {
	case Heartbeat:
		return nil
	case Checkpoint:
		return h.commit(ctx, e)
	case CheckpointCommitted:
		if h.open == nil || h.open.id != e.RequestID || h.committing != "" {
			return fmt.Errorf("the supervisor settled the request %q, which is not open", e.RequestID)
		}
		h.settle(nil)
		return nil
	case Completed:
		if *e.ExitCode != 0 {
			return fmt.Errorf("the harness ended with status %d", *e.ExitCode)
		}
	case Failure:
		return fmt.Errorf("the supervisor failed: %s", e.Message)
	}
	return fmt.Errorf("the supervisor said %s where it does not belong", e.Type)
}

// ask passes a request on; there is one at a time.
func (h *harness) ask(ctx context.Context, q *request) error {
	if h.open != nil {
		q.done <- fmt.Errorf("checkpoint request %s: another one is open", q.id)
		return nil
	}
	h.open = q
	return h.link.send(ctx, Command{Type: CheckpointRequest, RequestID: q.id}, sendLimit)
}

// commit begins to publish what the harness has reached; the harness waits.
func (h *harness) commit(ctx context.Context, e Event) error {
	switch {
	case h.committing != "":
		return fmt.Errorf("checkpoint %s came while %s was not answered", e.CheckpointID, h.committing)
	case e.SessionID != h.run.Tenure.Scope.Session:
		return fmt.Errorf("checkpoint %s is of another session", e.CheckpointID)
	case e.RequestID != "" && (h.open == nil || h.open.id != e.RequestID):
		return fmt.Errorf("checkpoint %s answers the request %q, which is not open", e.CheckpointID, e.RequestID)
	}
	h.committing = e.CheckpointID
	c := session.LiveCheckpoint{ID: e.CheckpointID, SessionID: e.SessionID, TurnID: e.TurnID}
	go func() { // drive waits for it
		var err error
		if h.run.Checkpoint == nil {
			err = session.ErrUnsupported
		} else {
			_, err = h.run.Checkpoint(ctx, c)
		}
		h.committed <- verdict{err}
	}()
	return nil
}

// answer tells the harness what became of its checkpoint. One that failed ends it.
func (h *harness) answer(ctx context.Context, err error) error {
	id := h.committing
	h.committing = ""
	if err == nil {
		return h.link.send(ctx, Command{Type: CheckpointCommit, CheckpointID: id}, sendLimit)
	}
	err = fmt.Errorf("checkpoint %s: %w", id, err)
	text := err.Error()
	if len(text) > MaxText {
		text = session.ErrorText(text)
	}
	return errors.Join(err, h.link.send(ctx, Command{Type: CheckpointReject, CheckpointID: id, Message: text}, sendLimit))
}

// drain is the time from completed to drained.
func (h *harness) drain(ctx context.Context) error {
	limit := time.NewTimer(h.run.Driver.DrainTimeout)
	defer limit.Stop()
	if err := h.link.send(ctx, Command{Type: Drain}, h.run.Driver.DrainTimeout); err != nil {
		return err
	}
	for {
		e, err := h.event(ctx, limit)
		switch {
		case err != nil:
			return fmt.Errorf("wait for drained: %w", err)
		case e.Type == Drained:
			return nil
		case e.Type == Failure:
			return fmt.Errorf("the supervisor failed while it drained: %s", e.Message)
		case e.Type != Heartbeat:
			return fmt.Errorf("the supervisor said %s where it does not belong", e.Type)
		}
	}
}
