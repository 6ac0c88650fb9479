package mux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// ErrLinkLost says that the connection ended before the answer came: whether
// the guest did what was asked is unknown.
var ErrLinkLost = errors.New("link to guest lost")

// ErrNotSent goes with ErrLinkLost when the request was certainly never sent.
var ErrNotSent = errors.New("nothing was sent")

// Handler serves the calls of a session.
type Handler interface {
	// Serve answers c with what it returns, unless it called c.Reply before.
	// ctx ends when the caller gives up, when its deadline passes before the
	// reply, when one of the call's streams is reset, or with the link;
	// context.Cause tells which.
	Serve(ctx context.Context, c *Call) (any, error)
}

// Config of a session. Conn is required.
type Config struct {
	Conn    Conn
	Handler Handler       // nil: this end is the caller
	Logger  *slog.Logger  // nil: silent
	Ping    time.Duration // between two pings; 0: none are sent
	// MaxCalls bounds the calls served at once; more are answered with
	// CodeBusy. Default 2048.
	MaxCalls int
	// OnEvent is told of events, in order, in the reading loop: it must not
	// wait. Caller's end only.
	OnEvent func(name string, params json.RawMessage)
}

// Session is one end of a link. Make it with New, then run it.
type Session struct {
	cfg  Config
	log  *slog.Logger
	conn Conn
	done chan struct{} // closed when the session ends

	mu      sync.Mutex
	err     error // why it ended
	paused  bool  // no pings
	lastID  uint64
	lastStr uint64 // highest stream id ever opened
	pending map[uint64]*Pending
	serving map[uint64]*served
	streams map[uint64]*Stream
	busy    int            // rejections being written
	wg      sync.WaitGroup // calls being served, cancellations being sent
}

// New makes a session over cfg.Conn.
func New(cfg Config) *Session {
	if cfg.MaxCalls <= 0 {
		cfg.MaxCalls = 2048
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Session{
		cfg: cfg, log: cfg.Logger, conn: cfg.Conn, done: make(chan struct{}),
		pending: map[uint64]*Pending{},
		serving: map[uint64]*served{},
		streams: map[uint64]*Stream{},
	}
}

// Run moves messages until ctx ends or the link breaks, and returns why. All
// calls that were being served have returned by then.
func (s *Session) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var loops sync.WaitGroup
	loops.Go(func() {
		<-ctx.Done()
		s.Close(context.Cause(ctx))
	})
	if s.cfg.Ping > 0 {
		loops.Go(func() { s.ping(ctx) })
	}
	err := s.read(ctx)
	s.Close(err) // first, so that calls learn that the link was lost
	cancel(err)
	loops.Wait()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends the session; Run then returns reason. Closing twice is harmless.
func (s *Session) Close(reason error) {
	if reason == nil {
		reason = ErrLinkLost
	}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = reason
	streams, serving := s.streams, s.serving
	s.streams, s.serving, s.pending = nil, nil, nil
	close(s.done)
	s.mu.Unlock()

	lost := fmt.Errorf("%w: %w", ErrLinkLost, reason)
	for _, st := range streams {
		st.fail(lost)
	}
	for _, v := range serving {
		v.cancel(lost)
	}
	s.conn.Close(reason)
}

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Pause stops or resumes pings; while paused a silent other end counts as
// alive.
func (s *Session) Pause(paused bool) {
	s.mu.Lock()
	s.paused = paused
	s.mu.Unlock()
	if c, ok := s.conn.(interface{ Hold(bool) }); ok {
		c.Hold(paused)
	}
}

func (s *Session) ping(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Ping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		paused := s.paused
		s.mu.Unlock()
		if paused {
			continue
		}
		if err := s.conn.Ping(); err != nil {
			s.Close(err)
			return
		}
	}
}

func (s *Session) read(ctx context.Context) error {
	for {
		binary, msg, err := s.conn.Read()
		if err != nil {
			return err
		}
		if binary {
			err = s.takeFrame(msg)
		} else {
			err = s.takeEnvelope(ctx, msg)
		}
		if err != nil {
			return err
		}
	}
}

func (s *Session) takeFrame(msg []byte) error {
	id, f, payload, err := parseFrame(msg)
	if err != nil {
		return err
	}
	s.mu.Lock()
	st, known := s.streams[id], id <= s.lastStr
	s.mu.Unlock()
	if st == nil {
		if known {
			return nil // it ended while this was on its way
		}
		return fmt.Errorf("bytes for stream %d, never opened: %w", id, ErrProtocol)
	}
	return st.take(f, payload)
}

func (s *Session) takeEnvelope(ctx context.Context, msg []byte) error {
	e, err := parseEnvelope(msg)
	if err != nil {
		return err
	}
	caller := s.cfg.Handler == nil
	switch {
	case e.Op != "" && !caller:
		return s.admit(ctx, e)
	case e.Cancel && !caller:
		s.mu.Lock()
		v := s.serving[e.ID]
		s.mu.Unlock()
		if v != nil {
			v.abort(context.Canceled)
		}
		return nil
	case e.Event != "" && caller:
		if s.cfg.OnEvent != nil {
			s.cfg.OnEvent(e.Event, e.Params)
		}
		return nil
	case e.Op == "" && !e.Cancel && e.Event == "" && caller:
		s.answered(e)
		return nil
	}
	return fmt.Errorf("envelope of the wrong direction: %w", ErrProtocol)
}

// send writes one envelope. An envelope above the limit of the wire is the
// caller's fault, not the link's.
func (s *Session) send(e envelope) error {
	b, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(b) > MaxMessage {
		return &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("message of %d bytes is above the limit of %d", len(b), MaxMessage)}
	}
	return s.write(false, b, nil)
}

func (s *Session) write(binary bool, head, body []byte) error {
	if err := s.conn.Write(binary, head, body); err != nil {
		s.Close(err)
		return fmt.Errorf("%w: %w", ErrLinkLost, err)
	}
	return nil
}

func (s *Session) forget(id uint64) {
	s.mu.Lock()
	delete(s.streams, id)
	s.mu.Unlock()
}

// Emit sends an event to the caller. Server's end only.
func (s *Session) Emit(name string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", name, err)
	}
	return s.send(envelope{Event: name, Params: raw})
}
