package mux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Pending is a call on its way, with the streams that it opened.
type Pending struct {
	Streams []*Stream

	s       *Session
	id      uint64
	ch      chan envelope
	given   sync.Once
	givenUp chan struct{} // closed by Cancel
}

// Open sends the request op with n streams. The deadline of ctx travels with
// it; ctx must be handed to Wait as well.
func (s *Session) Open(ctx context.Context, op string, params any, n int) (*Pending, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("encode parameters of %s: %w", op, err)
	}
	e := envelope{Op: op, Params: raw}
	if deadline, ok := ctx.Deadline(); ok {
		if e.Timeout = time.Until(deadline); e.Timeout <= 0 {
			return nil, context.DeadlineExceeded
		}
	}
	p, err := s.register(&e, n)
	if err != nil {
		return nil, err
	}
	if err := s.send(e); err != nil {
		p.drop()
		return nil, err
	}
	return p, nil
}

// register gives the request its ids. Stream ids must reach the wire in rising
// order, so that the server can tell an old id from one never opened; it
// accepts any order within what it has seen, so gaps do not matter.
func (s *Session) register(e *envelope, n int) (*Pending, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, fmt.Errorf("%w: %w: %w", ErrNotSent, ErrLinkLost, s.err)
	}
	s.lastID++
	e.ID = s.lastID
	p := &Pending{s: s, id: e.ID, ch: make(chan envelope, 1), givenUp: make(chan struct{})}
	for range n {
		s.lastStr++
		st := newStream(s, s.lastStr)
		s.streams[st.id] = st
		e.Streams = append(e.Streams, st.id)
		p.Streams = append(p.Streams, st)
	}
	s.pending[e.ID] = p
	return p, nil
}

// Wait returns the answer's result decoded into out (which may be nil). When
// ctx ends first the call is cancelled and its streams are reset.
func (p *Pending) Wait(ctx context.Context, out any) error {
	select {
	case e := <-p.ch:
		return p.finish(e, out)
	case <-p.s.done:
		select { // the answer may have come just before the end
		case e := <-p.ch:
			return p.finish(e, out)
		default:
		}
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrLinkLost, p.s.err)
	case <-p.givenUp:
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return context.Canceled
	case <-ctx.Done():
		p.Cancel()
		return context.Cause(ctx)
	}
}

func (p *Pending) finish(e envelope, out any) error {
	if e.Error != nil {
		return e.Error
	}
	if out == nil || len(e.Result) == 0 {
		return nil
	}
	if err := json.Unmarshal(e.Result, out); err != nil {
		return fmt.Errorf("decode answer: %w: %w", err, ErrProtocol)
	}
	return nil
}

// Cancel gives the call up: the guest is told, its streams are reset, Wait
// returns. After the answer it only resets the streams.
func (p *Pending) Cancel() { p.given.Do(p.cancel) }

func (p *Pending) cancel() {
	close(p.givenUp)
	p.drop()
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.s.err != nil {
		return
	}
	// Not here: a link that takes no bytes must not hold up who gave up. When
	// it cannot be told the link is lost, and the guest sees that.
	p.s.wg.Go(func() { _ = p.s.send(envelope{ID: p.id, Cancel: true}) })
}

func (p *Pending) drop() {
	p.s.mu.Lock()
	if p.s.pending != nil {
		delete(p.s.pending, p.id)
	}
	for _, st := range p.Streams {
		delete(p.s.streams, st.id)
	}
	p.s.mu.Unlock()
	for _, st := range p.Streams {
		st.fail(context.Canceled)
	}
}

func (s *Session) answered(e envelope) {
	s.mu.Lock()
	p := s.pending[e.ID]
	delete(s.pending, e.ID)
	if p != nil && e.End {
		for _, st := range p.Streams {
			delete(s.streams, st.id)
		}
	}
	s.mu.Unlock()
	if p == nil {
		return // given up, or never asked: nothing waits for it
	}
	if e.End {
		in := io.EOF
		if e.Error != nil {
			in = e.Error
		}
		for _, st := range p.Streams {
			st.settle(in, ErrStopped)
		}
	}
	p.ch <- e // buffered, and sent to once
}

// Call is one request being served.
type Call struct {
	Op      string
	Streams []*Stream

	params   json.RawMessage
	s        *Session
	id       uint64
	deadline time.Time // zero: none
	timer    *time.Timer
	replied  bool
}

// Deadline is when the call is aborted unless it was answered before. The context
// that it is served under does not tell, for Reply lifts it: whoever asks somebody
// else for the answer passes it on.
func (c *Call) Deadline() (until time.Time, ok bool) { return c.deadline, !c.deadline.IsZero() }

// Decode fills v with the call's parameters.
func (c *Call) Decode(v any) error {
	if len(c.params) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.params, v); err != nil {
		return &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("decode parameters of %s: %v", c.Op, err)}
	}
	return nil
}

// Session is the session that the call came through.
func (c *Call) Session() *Session { return c.s }

// Reply answers the call before Serve returns, and lifts its deadline: what
// follows happens on the streams. Only the first reply counts.
func (c *Call) Reply(result any) error { return c.reply(result, false) }

func (c *Call) reply(result any, end bool) error {
	if c.replied {
		return nil
	}
	c.replied = true
	if c.timer != nil {
		c.timer.Stop()
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode result of %s: %w", c.Op, err)
	}
	err = c.s.send(envelope{ID: c.id, Result: raw, End: end})
	if refused, ok := errors.AsType[*guest.Error](err); ok { // the result was too large
		return c.s.send(envelope{ID: c.id, Error: refused, End: end})
	}
	return err
}

// Params are the call's parameters as they came; nil if there are none.
func (c *Call) Params() json.RawMessage { return c.params }
