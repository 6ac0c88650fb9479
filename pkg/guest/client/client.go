// Package client is the host's end of the link to a guest: one connection that
// is kept up, and the calls that go through it.
//
// A call that is made while there is no connection waits for one, bounded by
// its context. A call that was on its way when the connection broke returns
// mux.ErrLinkLost (errors.Is): whether the guest acted on it is unknown. What
// the guest refuses is a *guest.Error, to be told apart by its code.
package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// ErrLinkLost is what calls return whose connection broke under them.
var ErrLinkLost = mux.ErrLinkLost

// ErrClosed says that the client's Run has ended.
var ErrClosed = errors.New("guest client is closed")

// Config of a Client. Dial and Token are required.
type Config struct {
	// Dial opens a connection to guestd's port.
	Dial  func(context.Context) (net.Conn, error)
	Token string
	// Others are further tokens that the guest may take: they have their turn
	// when one is refused.
	Others []string
	Logger *slog.Logger // nil: silent
	// Scale stretches every wait of the client, for guests on slow
	// accelerators. Default 1.
	Scale float64
	// Version of the host, told to the guest.
	Version string
	// Keepalive is the time between two pings; after three without any sign
	// of life the connection is given up. Default 10 s, scaled.
	Keepalive time.Duration
	// OnEvent is told of the guest's events, in order; it must not wait.
	OnEvent func(name string, params json.RawMessage)
}

// Client is one guest, seen from the host. Its methods and those of its parts
// may be called by many goroutines.
type Client struct {
	Exec    *Exec
	Files   *Files
	System  *System
	Desktop *Desktop

	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	tokens  []string // to be tried in this order
	session *mux.Session
	hello   guest.Hello
	changed chan struct{} // closed when session or closed change
	kick    chan struct{} // closed to dial at once
	paused  bool
	closed  bool
	last    error // of the newest attempt to connect
}

// New makes a Client. Nothing is dialled before Run.
func New(cfg Config) *Client {
	cfg.Scale = cmp.Or(cfg.Scale, 1)
	cfg.Keepalive = cmp.Or(cfg.Keepalive, 10*time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		cfg: cfg, log: cfg.Logger, tokens: append([]string{cfg.Token}, cfg.Others...),
		changed: make(chan struct{}), kick: make(chan struct{}),
	}
	c.Exec, c.Files = &Exec{c}, &Files{c: c}
	c.System, c.Desktop = &System{c}, &Desktop{c}
	return c
}

func (c *Client) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * c.cfg.Scale)
}

// Run keeps the connection until ctx ends. Calls that wait then return
// ErrClosed.
func (c *Client) Run(ctx context.Context) error {
	if c.cfg.Dial == nil || c.cfg.Token == "" || c.cfg.Scale <= 0 {
		return errors.New("guest client needs a dialer, a token and a positive scale")
	}
	defer c.update(func() { c.closed, c.session = true, nil })
	const shortest, longest = 20 * time.Millisecond, time.Second
	wait := c.scaled(shortest)
	for ctx.Err() == nil {
		up, err := c.once(ctx)
		if up {
			wait = c.scaled(shortest)
		}
		if ctx.Err() != nil {
			break
		}
		c.log.Debug("link to guest is down", "err", err, "again_in", wait)
		c.update(func() { c.last = err })
		c.pause(ctx, wait/2+rand.N(wait/2))
		wait = min(wait*8/5, c.scaled(longest))
	}
	return ctx.Err()
}

func (c *Client) update(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fn()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Client) kicked() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kick
}

func (c *Client) pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-c.kicked():
	case <-t.C:
	}
}

// Kick makes a client without a connection dial at once, also when an attempt
// is under way: for hosts that know that the guest has just begun to run.
func (c *Client) Kick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.kick)
	c.kick = make(chan struct{})
}

// Suspend tells the client that the guest does not run: its silence is then no
// reason to give the connection up. Resume ends that.
func (c *Client) Suspend() { c.hold(true) }

// Resume tells the client that the guest runs again.
func (c *Client) Resume() {
	c.hold(false)
	c.Kick()
}

func (c *Client) hold(paused bool) {
	c.mu.Lock()
	c.paused = paused
	s := c.session
	c.mu.Unlock()
	if s != nil {
		s.Pause(paused)
	}
}

// once makes one connection and keeps it to its end; up says whether there was
// one.
func (c *Client) once(ctx context.Context) (up bool, err error) {
	const attempt = 5 * time.Second
	dialCtx, cancel := context.WithTimeout(ctx, c.scaled(attempt))
	defer cancel()
	kicked := c.kicked()
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel() // before the wait for the watch
	watch.Go(func() {
		select {
		case <-kicked:
			cancel()
		case <-dialCtx.Done():
		}
	})
	timing := mux.Timing{Idle: c.scaled(3 * c.cfg.Keepalive), Write: c.scaled(c.cfg.Keepalive)}
	conn, err := mux.Dial(dialCtx, c.cfg.Dial, c.token(), timing)
	if errors.Is(err, mux.ErrUnauthorized) {
		c.rotate()
	}
	if err != nil {
		return false, err
	}
	s := mux.New(mux.Config{Conn: conn, Logger: c.log, Ping: c.scaled(c.cfg.Keepalive), OnEvent: c.cfg.OnEvent})
	var end error
	watch.Go(func() { end = s.Run(ctx) })
	hello, err := c.greet(dialCtx, s)
	cancel()
	if err != nil {
		s.Close(err)
		<-s.Done()
		return false, err
	}
	c.update(func() { c.session, c.hello, c.last = s, hello, nil })
	c.mu.Lock()
	paused := c.paused
	c.mu.Unlock()
	if paused {
		s.Pause(true)
	}
	<-s.Done()
	c.update(func() { c.session = nil })
	watch.Wait()
	return true, end
}

func (c *Client) greet(ctx context.Context, s *mux.Session) (hello guest.Hello, err error) {
	p, err := s.Open(ctx, guest.OpHello, guest.HelloParams{Protocol: guest.Protocol, Version: c.cfg.Version}, 0)
	if err != nil {
		return hello, err
	}
	if err := p.Wait(ctx, &hello); err != nil {
		return hello, fmt.Errorf("exchange versions: %w", err)
	}
	if hello.Protocol != guest.Protocol {
		return hello, fmt.Errorf("guest speaks protocol %d, not %d", hello.Protocol, guest.Protocol)
	}
	return hello, nil
}

func (c *Client) token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tokens[0]
}

// rotate puts a refused token behind the others.
func (c *Client) rotate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens = append(c.tokens[1:], c.tokens[0])
}

// Connected tells whether there is a connection at this moment.
func (c *Client) Connected() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.aliveLocked() != nil
}

func (c *Client) aliveLocked() *mux.Session {
	if c.session == nil {
		return nil
	}
	select {
	case <-c.session.Done():
		return nil
	default:
		return c.session
	}
}

// live waits for a connection.
func (c *Client) live(ctx context.Context) (*mux.Session, error) {
	for {
		c.mu.Lock()
		s, closed, changed := c.aliveLocked(), c.closed, c.changed
		c.mu.Unlock()
		if s != nil {
			return s, nil
		}
		if closed {
			return nil, ErrClosed
		}
		select {
		case <-ctx.Done():
			c.mu.Lock()
			last := c.last
			c.mu.Unlock()
			if last != nil {
				return nil, fmt.Errorf("wait for link to guest: %w (last attempt: %w)", context.Cause(ctx), last)
			}
			return nil, fmt.Errorf("wait for link to guest: %w", context.Cause(ctx))
		case <-changed:
		}
	}
}

// open sends a request with n streams as soon as there is a connection.
func (c *Client) open(ctx context.Context, op string, params any, n int) (*mux.Pending, error) {
	return c.openLate(ctx, op, func() any { return params }, n)
}

// openLate is open with parameters that are made when they are sent.
func (c *Client) openLate(ctx context.Context, op string, params func() any, n int) (*mux.Pending, error) {
	for {
		s, err := c.live(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		p, err := s.Open(ctx, op, params(), n)
		if errors.Is(err, mux.ErrNotSent) {
			continue // the connection ended between the two lines above
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		return p, nil
	}
}

// call makes a request without streams.
func (c *Client) call(ctx context.Context, op string, params, out any) error {
	p, err := c.open(ctx, op, params, 0)
	if err != nil {
		return err
	}
	return await(ctx, p, op, out)
}

// await returns the answer. A deadline or cancellation that the guest noticed
// first is the context's all the same.
func await(ctx context.Context, p *mux.Pending, op string, out any) error {
	err := p.Wait(ctx, out)
	var ge *guest.Error
	if errors.As(err, &ge) && ctx.Err() != nil && (ge.Code == guest.CodeDeadline || ge.Code == guest.CodeCancelled) {
		return fmt.Errorf("%s: %w: %w", op, ge, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Hello is what the guest told when it was connected to last.
func (c *Client) Hello(ctx context.Context) (guest.Hello, error) {
	if _, err := c.live(ctx); err != nil {
		return guest.Hello{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hello, nil
}
