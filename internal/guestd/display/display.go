// Package display keeps the helper of the desktop's X session running and
// passes the host's desktop requests to it.
package display

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Process is a started helper.
type Process struct {
	Out  io.Reader // its frames
	In   io.WriteCloser
	Kill func()       // ends it; may be called twice
	Wait func() error // returns when it has ended, once
}

// Config of a Supervisor. Spawn is required.
type Config struct {
	Spawn func(context.Context) (*Process, error)
	// Env is the default environment of launched programs; nil: none. It is read
	// at each launch, because a handshake may come after the helper's start.
	Env    func() map[string]string
	Socket string       // of the X server: no helper is started before it exists; empty: not looked at
	Logger *slog.Logger // nil: silent
	// OnChange is told when the helper can be asked and when no longer.
	OnChange func(up bool)
	// Poll, Backoff and MaxBackoff are the waits for the socket and between
	// starts. Defaults 500 ms, 200 ms and 5 s.
	Poll, Backoff, MaxBackoff time.Duration
	// Greeting is how long a helper may take to open the display; Silence how
	// long it may leave requests unanswered past their deadline without a word
	// before it is replaced. Defaults 30 s and 15 s.
	Greeting, Silence time.Duration
}

// Supervisor runs one helper at a time.
type Supervisor struct {
	cfg  Config
	log  *slog.Logger
	slot chan *link // holds the current link, nil while there is none

	browsing *browsing
}

// New makes a Supervisor. Nothing runs before Run.
func New(cfg Config) *Supervisor {
	cfg.Poll = cmp.Or(cfg.Poll, 500*time.Millisecond)
	cfg.Backoff = cmp.Or(cfg.Backoff, 200*time.Millisecond)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, 5*time.Second)
	cfg.Greeting = cmp.Or(cfg.Greeting, 30*time.Second)
	cfg.Silence = cmp.Or(cfg.Silence, 15*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.OnChange == nil {
		cfg.OnChange = func(bool) {}
	}
	s := &Supervisor{cfg: cfg, log: cfg.Logger, slot: make(chan *link, 1), browsing: newBrowsing()}
	s.slot <- nil
	return s
}

// Run keeps a helper running until ctx ends, and returns when the last one has
// ended.
func (s *Supervisor) Run(ctx context.Context) error {
	wait := s.cfg.Backoff
	for ctx.Err() == nil {
		if !s.socketThere() {
			_ = sleep.For(ctx, s.cfg.Poll) // the loop looks at ctx
			continue
		}
		started := time.Now()
		err := s.once(ctx)
		if ctx.Err() != nil {
			break
		}
		if time.Since(started) > 2*s.cfg.MaxBackoff {
			wait = s.cfg.Backoff
		}
		s.log.Warn("desktop helper ended", "err", err, "restart_in", wait)
		_ = sleep.For(ctx, wait) // the loop looks at ctx
		wait = min(2*wait, s.cfg.MaxBackoff)
	}
	return ctx.Err()
}

func (s *Supervisor) socketThere() bool {
	if s.cfg.Socket == "" {
		return true
	}
	_, err := os.Stat(s.cfg.Socket)
	return err == nil
}

// once runs one helper from its start to its end.
func (s *Supervisor) once(ctx context.Context) error {
	p, err := s.cfg.Spawn(ctx)
	if err != nil {
		return fmt.Errorf("start helper: %w", err)
	}
	l := newLink(p)
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	greeting := time.AfterFunc(s.cfg.Greeting, p.Kill)
	defer greeting.Stop()
	err = l.run(func(hello guest.HelperHello) {
		greeting.Stop()
		s.log.Info("desktop helper is ready", "pid", hello.PID, "display", hello.Display, "missing", hello.Missing)
		s.set(l)
	}, s.told)
	s.set(nil)
	s.browsing.set(false)
	return errors.Join(err, p.Wait())
}

func (s *Supervisor) set(l *link) {
	old := <-s.slot
	s.slot <- l
	if (old == nil) != (l == nil) {
		s.cfg.OnChange(l != nil)
	}
}

// Up tells whether a helper can be asked.
func (s *Supervisor) Up() bool { return s.current() != nil }

func (s *Supervisor) current() *link {
	l := <-s.slot
	s.slot <- l
	return l
}

// Do asks the helper. While there is none, or when it goes away before it
// answers, the error is CodeNoDisplay.
func (s *Supervisor) Do(ctx context.Context, op string, params json.RawMessage, binary []byte) (guest.HelperMessage, error) {
	l := s.current()
	if l == nil {
		return guest.HelperMessage{}, noDisplay(op)
	}
	m := guest.HelperMessage{Op: op, Params: params, Binary: binary}
	if deadline, ok := ctx.Deadline(); ok {
		m.Timeout = time.Until(deadline)
	}
	res, err := l.ask(ctx, m)
	if errors.Is(err, context.DeadlineExceeded) && l.silent() > s.cfg.Silence {
		s.log.Error("desktop helper does not answer; replacing it", "op", op)
		l.proc.Kill()
	}
	return res, err
}

func noDisplay(op string) error {
	return &guest.Error{Code: guest.CodeNoDisplay, Message: op + ": the guest has no display at present"}
}
