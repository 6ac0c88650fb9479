package rfb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Config says how a Client works. Dial is required; other zero values mean the
// stated defaults.
type Config struct {
	// Dial opens a connection to the server.
	Dial func(ctx context.Context) (net.Conn, error)
	// Idle is how long the connection, and the frame, outlive their last use.
	// Default 10 s. While a key or button is held they stay.
	Idle time.Duration
	// MaxAge is how old a frame may be that Frame returns without asking the
	// server. Default 50 ms.
	MaxAge time.Duration
	// Timeout bounds dialling with its handshake, the wait for an answer and
	// every write. Default 10 s; give more where QEMU emulates slowly.
	Timeout time.Duration
	// Compress prefers ZRLE to raw pixels: for servers that are not on this
	// host. On a unix socket raw is faster.
	Compress bool
	// MaxPixels bounds the screen's size. Default 7680*4320. A side may have
	// 16384 pixels.
	MaxPixels int
	// Logger gets connection changes at level debug. Default: none.
	Logger *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	if c.Dial == nil {
		return c, errors.New("configure rfb client: Dial is required")
	}
	if c.Idle < 0 || c.MaxAge < 0 || c.Timeout < 0 || c.MaxPixels < 0 {
		return c, errors.New("configure rfb client: durations and sizes must not be negative")
	}
	c.Idle = cmp.Or(c.Idle, 10*time.Second)
	c.MaxAge = cmp.Or(c.MaxAge, 50*time.Millisecond)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.MaxPixels = cmp.Or(c.MaxPixels, 7680*4320)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Client is a screen, a pointer and a keyboard over RFB. It connects while
// somebody uses it. Safe for concurrent use; Run must be running.
type Client struct {
	cfg  Config
	kick chan struct{} // wakes Run; holds one token

	imu sync.Mutex // orders input; taken before mu

	mu     sync.Mutex
	notify chan struct{} // closed and replaced at every change
	closed bool          // Run has ended, or never will run

	// What callers want.
	want     time.Time // a frame confirmed after this
	touched  time.Time // frames from before this may lack something
	demand   bool      // somebody waits for a connection; Run takes it
	callers  int
	watchers int // callers in Next
	lastUse  time.Time

	// What the connection gives.
	sess     *session
	failures int // grows by 2 when no session came about, by 1 when one broke
	lastErr  error
	frame    *desktop.Frame // nil while an update changes its pixels
	taken    bool           // somebody outside holds frame.Image
	open     bool           // a request waits for its answer
	asked    time.Time      // when the last request went out
	answered time.Time      // asked of the last request that was answered
	seq      uint64
	damage   damageLog
	prior    fingerprint // of the last frame of the last connection

	cursor cursor
	held   held
}

var (
	_ desktop.Source    = (*Client)(nil)
	_ desktop.Confirmer = (*Client)(nil)
	_ desktop.Damager   = (*Client)(nil)
	_ desktop.Input     = (*Client)(nil)
)

// New returns a client. It starts nothing; call Run.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Client{cfg: cfg, kick: make(chan struct{}, 1), notify: make(chan struct{}), prior: newFingerprint()}, nil
}

// Frame returns the screen as it is now: confirmed at most Config.MaxAge ago,
// and after the last input and the last Touch.
func (c *Client) Frame(ctx context.Context) (*desktop.Frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now().Add(-c.cfg.MaxAge)
	if c.touched.After(t) {
		t = c.touched
	}
	return c.frameAfter(ctx, t)
}

// FrameAfter returns a frame with At not before t: everything that the server
// had on its display at t is in it. A t in the future waits for it.
func (c *Client) FrameAfter(ctx context.Context, t time.Time) (*desktop.Frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frameAfter(ctx, t)
}

func (c *Client) frameAfter(ctx context.Context, t time.Time) (*desktop.Frame, error) {
	err := c.await(ctx, func() bool {
		if c.frame != nil && !c.frame.At.Before(t) {
			return true
		}
		if t.After(c.want) {
			c.want = t
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	c.taken = true
	return c.frame, nil
}

// Next blocks until a frame with Seq > after exists. While anybody waits the
// server is asked for changes without a pause.
func (c *Client) Next(ctx context.Context, after uint64) (*desktop.Frame, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watchers++
	defer func() { c.watchers-- }()
	if err := c.await(ctx, func() bool { return c.frame != nil && c.frame.Seq > after }); err != nil {
		return nil, err
	}
	c.taken = true
	return c.frame, nil
}

// Damage returns where pixels changed since the frame numbered since.
func (c *Client) Damage(since uint64) (rects []image.Rectangle, seq uint64, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rects, known = c.damage.since(since, c.seq)
	return rects, c.seq, known
}

// Touch says that something other than this client's input may have drawn: the
// next Frame is confirmed after now.
func (c *Client) Touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched = time.Now()
}

// await waits until ready; mu is held, except while it sleeps. A broken
// connection is dialled again once; a failing dial ends the wait.
func (c *Client) await(ctx context.Context, ready func() bool) error {
	c.lastUse = time.Now()
	if ready() {
		return nil
	}
	start := c.failures
	c.callers++
	defer func() {
		c.callers--
		c.lastUse = time.Now()
		c.wake()
	}()
	for !ready() {
		if c.closed {
			return fmt.Errorf("use the display: client has stopped: %w", desktop.ErrDisconnect)
		}
		if c.failures >= start+2 {
			return c.lastErr
		}
		changed := c.notify
		c.demand = true
		c.wake()
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		c.mu.Lock()
		if err := ctx.Err(); err != nil && !ready() {
			return fmt.Errorf("wait for the display: %w", err)
		}
	}
	return nil
}

// wake makes Run look at what is wanted.
func (c *Client) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// broadcast tells every waiter that something changed; mu is held.
func (c *Client) broadcast() {
	close(c.notify)
	c.notify = make(chan struct{})
}
