//go:build linux

// Package guesthelper is the helper of guestd in the X session of the
// desktop's user: it serves the screen, input, the clipboard, windows and
// launching over the frames of guest.HelperConn. It may end at any time and be
// started again; guestd sees to that.
package guesthelper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	// defaultTimeout is for requests that state none.
	defaultTimeout = 60 * time.Second
	// grace is how long an operation may take to stop after its end was due:
	// it lets go of keys and puts the clipboard back. Then it is answered for;
	// an X server that hangs cannot be waited for.
	grace = 3 * time.Second
	// mostInFlight bounds the requests that are served at once.
	mostInFlight = 64
)

var errCancelled error = &guest.Error{Code: guest.CodeCancelled, Message: "given up by the caller"}

// Server answers requests from one connection.
type Server struct {
	conn *guest.HelperConn
	ops  map[string]op
	log  *slog.Logger
	lost <-chan struct{} // closed when the display is gone
	// browsing gives what is told unasked: whether a browser has a page open. Nil:
	// nothing is.
	browsing <-chan bool

	wg sync.WaitGroup // requests being served

	mu      sync.Mutex
	flights map[uint64]context.CancelCauseFunc
}

// NewServer serves s over conn. A nil logger logs nothing.
func NewServer(conn *guest.HelperConn, s *Session, log *slog.Logger) *Server {
	srv := newServer(conn, s.ops(), s.d.Done(), log)
	srv.browsing = s.browser.States()
	return srv
}

func newServer(conn *guest.HelperConn, ops map[string]op, lost <-chan struct{}, log *slog.Logger) *Server {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{conn: conn, ops: ops, log: log, lost: lost, flights: map[uint64]context.CancelCauseFunc{}}
}

// Run reads requests and answers them, many at once, until the peer closes
// (then it returns nil), breaks the framing (guest.ErrFrame), ctx ends, or the
// display is lost (display.ErrLost). Requests in flight are given up and
// answered before it returns. The goroutine that reads ends with the stream:
// the caller closes it.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	requests := make(chan guest.HelperMessage)
	broken := make(chan error, 1)
	go func() { // ends with the stream, or with Run
		for {
			m, err := s.conn.Read()
			if err != nil {
				broken <- err
				return
			}
			select {
			case requests <- m:
			case <-ctx.Done():
				return
			}
		}
	}()
	err := s.serve(ctx, requests, broken)
	cause := err
	if cause == nil {
		cause = errCancelled
	}
	cancel(cause)
	s.wg.Wait()
	return err
}

func (s *Server) serve(ctx context.Context, requests <-chan guest.HelperMessage, broken <-chan error) error {
	for {
		select {
		case m := <-requests:
			s.accept(ctx, m)
		case open := <-s.browsing:
			s.tell(guest.OpBrowsing, guest.Browsing{Open: open})
		case err := <-broken:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-s.lost:
			return display.ErrLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// accept starts serving m, or refuses it.
func (s *Server) accept(ctx context.Context, m guest.HelperMessage) {
	if m.Op == guest.OpCancel {
		s.mu.Lock()
		if stop := s.flights[m.ID]; stop != nil {
			stop(errCancelled)
		}
		s.mu.Unlock()
		return
	}
	f, ok := s.ops[m.Op]
	if !ok {
		s.answer(m.ID, reply{}, &guest.Error{Code: guest.CodeUnsupported, Message: fmt.Sprintf("operation %q: this helper does not know it", m.Op)})
		return
	}
	timeout := m.Timeout
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	flight, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	_, twice := s.flights[m.ID]
	full := len(s.flights) >= mostInFlight
	if !twice && !full {
		s.flights[m.ID] = cancel
	}
	s.mu.Unlock()
	if twice || full {
		cancel(nil)
		s.answer(m.ID, reply{}, &guest.Error{Code: guest.CodeBusy, Message: "too many requests at once, or an id used twice; wait for an answer"})
		return
	}
	s.wg.Go(func() { // Run waits for it
		defer cancel(nil)
		timed, stop := context.WithTimeout(flight, timeout)
		defer stop()
		r, err := s.bounded(timed, f, m)
		s.mu.Lock()
		delete(s.flights, m.ID)
		s.mu.Unlock()
		s.answer(m.ID, r, err)
	})
}

type outcome struct {
	reply
	err error
}

// bounded runs f, but returns at the end of ctx plus grace in any case.
func (s *Server) bounded(ctx context.Context, f op, m guest.HelperMessage) (reply, error) {
	done := make(chan outcome, 1)
	go func() { // a call that hangs in the X server ends with the connection
		r, err := s.guarded(ctx, f, m)
		done <- outcome{r, err}
	}()
	select {
	case o := <-done:
		return o.reply, o.err
	case <-ctx.Done():
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case o := <-done:
		return o.reply, o.err
	case <-t.C:
		return reply{}, fmt.Errorf("serve %s: the X server does not answer: %w", m.Op, context.Cause(ctx))
	case <-s.lost:
		return reply{}, display.ErrLost
	}
}

// guarded turns a panic into an error: the X library panics on answers that it
// cannot parse, and one request must not take the others down.
func (s *Server) guarded(ctx context.Context, f op, m guest.HelperMessage) (r reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("operation panicked", "op", m.Op, "panic", p, "stack", string(debug.Stack()))
			r, err = reply{}, fmt.Errorf("serve %s: panic: %v", m.Op, p)
		}
	}()
	return f(ctx, m)
}

// answer writes one answer. An error may come with a result: how far it went.
func (s *Server) answer(id uint64, r reply, err error) {
	m := guest.HelperMessage{ID: id, Binary: r.binary}
	if err != nil {
		m.Error, m.Binary = code(err), nil
	}
	if r.result != nil {
		raw, e := json.Marshal(r.result)
		if e != nil && m.Error == nil {
			m.Error, m.Binary = code(fmt.Errorf("encode result: %w", e)), nil
		}
		m.Result = raw
	}
	if err := s.conn.Write(m); err != nil {
		s.log.Warn("write answer", "id", id, "err", err)
	}
}

// Greet says hello; it comes before Run.
func (s *Server) Greet(h guest.HelperHello) error { return s.say("", h) }

// tell says unasked what has changed.
func (s *Server) tell(op string, now any) {
	if err := s.say(op, now); err != nil {
		s.log.Warn("tell of a change", "op", op, "err", err)
	}
}

func (s *Server) say(op string, what any) error {
	raw, err := json.Marshal(what)
	if err != nil {
		return fmt.Errorf("encode what is told: %w", err)
	}
	return s.conn.Write(guest.HelperMessage{Op: op, Result: raw})
}
