package mux

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// served is a call under way.
type served struct {
	cancel  context.CancelCauseFunc
	streams []*Stream
}

// abort ends the call's context and wakes whoever waits for its streams.
func (v *served) abort(cause error) {
	v.cancel(cause)
	for _, st := range v.streams {
		st.fail(cause)
	}
}

// admit starts serving a request, or turns it away when too many are served.
// It runs in the reading loop.
func (s *Session) admit(ctx context.Context, e envelope) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	if _, twice := s.serving[e.ID]; twice {
		return fmt.Errorf("request %d is already being served: %w", e.ID, ErrProtocol)
	}
	streams := make([]*Stream, 0, len(e.Streams))
	for _, id := range e.Streams {
		if id == 0 || s.streams[id] != nil {
			return fmt.Errorf("request %d opens stream %d again: %w", e.ID, id, ErrProtocol)
		}
		s.lastStr = max(s.lastStr, id)
		st := newStream(s, id)
		streams = append(streams, st)
		s.streams[id] = st
	}
	c := &Call{Op: e.Op, Streams: streams, params: e.Params, s: s, id: e.ID}
	if len(s.serving) >= s.cfg.MaxCalls {
		if s.busy++; s.busy > s.cfg.MaxCalls {
			return fmt.Errorf("too many requests at once: %w", ErrProtocol)
		}
		s.wg.Go(func() { s.turnAway(c) })
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	v := &served{cancel: cancel, streams: streams}
	s.serving[e.ID] = v
	if e.Timeout > 0 {
		c.deadline = time.Now().Add(e.Timeout)
		c.timer = time.AfterFunc(e.Timeout, func() { v.abort(context.DeadlineExceeded) })
	}
	for _, st := range streams {
		st.onReset = cancel
	}
	s.wg.Go(func() {
		defer cancel(nil)
		s.serve(ctx, c)
	})
	return nil
}

func (s *Session) turnAway(c *Call) {
	s.finish(c, nil, &guest.Error{Code: guest.CodeBusy, Message: fmt.Sprintf("guest serves %d calls already; try again later", s.cfg.MaxCalls)})
	s.mu.Lock()
	s.busy--
	s.mu.Unlock()
}

func (s *Session) serve(ctx context.Context, c *Call) {
	result, err := s.guarded(ctx, c)
	if cause := context.Cause(ctx); err != nil && cause != nil && errors.Is(err, context.Canceled) {
		err = fmt.Errorf("%s: %w", c.Op, cause)
	}
	s.mu.Lock()
	if s.serving != nil {
		delete(s.serving, c.id)
	}
	s.mu.Unlock()
	s.finish(c, result, err)
}

// guarded keeps a fault in one operation from ending all others.
func (s *Session) guarded(ctx context.Context, c *Call) (result any, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("operation panicked", "op", c.Op, "panic", p, "stack", string(debug.Stack()))
			err = &guest.Error{Code: guest.CodeInternal, Message: fmt.Sprintf("%s: internal fault: %v", c.Op, p)}
		}
	}()
	return s.cfg.Handler.Serve(ctx, c)
}

// finish answers the call if it was not answered, and ends its streams.
func (s *Session) finish(c *Call, result any, err error) {
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.replied {
		for _, st := range c.Streams {
			st.end(err)
		}
		return
	}
	for _, st := range c.Streams {
		s.forget(st.id)
		st.fail(errEnded)
	}
	// A failed write ended the session, which is all there is to do about it.
	if err != nil {
		c.replied = true
		_ = s.send(envelope{ID: c.id, Error: guest.ErrorFrom(err), End: true})
		return
	}
	_ = c.reply(result, true)
}
