package rfb

import (
	"context"
	"fmt"
	"image"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// minGap is the least time between two requests that nobody waits for
// urgently. QEMU answers at most every 30 ms of its own accord.
const minGap = 15 * time.Millisecond

// Run keeps the connection while somebody needs it. It returns nil when ctx
// ends, after all that it started has ended; calls fail from then on.
func (c *Client) Run(ctx context.Context) error {
	defer c.stop()
	for {
		if !c.takeDemand() {
			select {
			case <-c.kick:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		s, err := c.connect(ctx)
		if ctx.Err() != nil {
			if s != nil {
				s.conn.Close()
			}
			return nil
		}
		if err != nil {
			c.fail(err, 2)
			continue
		}
		c.cfg.Logger.Debug("display connected", "name", s.name, "size", s.size)
		c.begin(s)
		err = c.serve(ctx, s)
		c.end(err)
		c.cfg.Logger.Debug("display disconnected", "error", err)
		if ctx.Err() != nil {
			return nil
		}
	}
}

func (c *Client) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.broadcast()
}

// takeDemand tells whether anybody has asked for a connection since it was
// last looked at.
func (c *Client) takeDemand() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.demand
	c.demand = false
	return d
}

func (c *Client) fail(err error, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures += weight
	c.lastErr = err
	c.broadcast()
}

func (c *Client) begin(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sess = s
	c.open = false
	c.asked = time.Time{}
}

// end forgets the connection; err is nil when it was closed for idleness.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frame != nil {
		c.prior.keep(c.frame.Image)
	}
	c.sess, c.frame, c.open, c.taken = nil, nil, false, false
	c.demand = false // who still waits asks again
	c.cursor = cursor{}
	c.held.lost()
	if err != nil {
		c.failures++
		c.lastErr = err
	}
	c.broadcast()
}

// serve asks for updates as they are wanted, until nobody has needed the
// connection for a while (nil), it breaks, or ctx ends.
func (c *Client) serve(ctx context.Context, s *session) error {
	broken := make(chan struct{})
	var readErr error
	go func() {
		defer close(broken)
		readErr = c.read(s)
	}()
	defer func() {
		s.conn.Close()
		<-broken
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p := c.plan(s, time.Now())
		if p.err != nil || p.stop {
			return p.err
		}
		if p.ask {
			if err := s.request(ctx, p.full, p.wake, p.size); err != nil {
				return err
			}
			continue
		}
		timer.Reset(p.wait)
		select {
		case <-ctx.Done():
			return fmt.Errorf("serve display: %w", ctx.Err())
		case <-broken:
			return readErr
		case <-c.kick:
		case <-timer.C:
		}
	}
}

// step is what serve does next.
type step struct {
	err        error
	stop       bool // nobody needs the connection
	ask        bool
	full, wake bool // of a request
	size       image.Point
	wait       time.Duration // otherwise: until then, or a kick
}

func (c *Client) plan(s *session, now time.Time) step {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open {
		left := c.asked.Add(c.cfg.Timeout).Sub(now)
		if left <= 0 {
			return step{err: fmt.Errorf("display did not answer within %v: %w", c.cfg.Timeout, desktop.ErrDisconnect)}
		}
		return step{wait: left}
	}
	due := c.want.Sub(now) // when a frame is wanted that is not from before
	if c.frame != nil && !c.want.After(c.frame.At) {
		due = time.Hour
	}
	urgent := c.frame == nil || due <= 0
	if left := c.asked.Add(minGap).Sub(now); c.watchers > 0 && !urgent {
		urgent, due = left <= 0, min(due, left)
	}
	if urgent {
		c.open, c.asked = true, now
		return step{ask: true, full: s.incomplete, wake: s.qemu && s.extKeys, size: s.size}
	}
	if c.callers > 0 || c.held.any() {
		return step{wait: due}
	}
	left := c.lastUse.Add(c.cfg.Idle).Sub(now)
	return step{stop: left <= 0, wait: left}
}

// read applies the server's messages until the connection ends.
func (c *Client) read(s *session) error {
	for {
		u, ok, err := s.dec.message()
		if err != nil {
			return disconnected("read from display", err)
		}
		if ok {
			c.updated(s, u)
		}
	}
}

// claim gives the decoder pixels that it may write: the frame's own when no
// reader holds them, otherwise a copy.
func (c *Client) claim(img *image.RGBA) *image.RGBA {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frame != nil && c.frame.Image == img && c.taken {
		return &image.RGBA{Pix: append([]byte(nil), img.Pix...), Stride: img.Stride, Rect: img.Rect}
	}
	c.frame = nil // until the update is whole
	return img
}

// updated publishes what an update has made of the screen.
func (c *Client) updated(s *session, u update) {
	scr := &s.dec.scr
	c.mu.Lock()
	defer c.mu.Unlock()
	renewed := s.incomplete && s.started // a new size: whatever it shows is new
	s.incomplete, s.size = scr.missing != nil, scr.bounds().Size()
	s.extKeys, s.relative = s.dec.extKeys, s.dec.relative
	if s.dec.cursor.placed {
		c.held.pos, c.held.placed = s.dec.cursor.pos, true
		s.dec.cursor.placed = false
	}
	if c.open && u.probe {
		c.open, c.answered = false, c.asked
	}
	defer c.wake()
	defer c.broadcast()
	if s.incomplete {
		c.frame = nil
		return
	}
	switch {
	case !s.started:
		s.started = true
		if !c.prior.matches(scr.img) {
			c.seq++
			c.damage = damageLog{}
		}
	case renewed || scr.resized:
		c.seq++
		c.damage.add(c.seq, []image.Rectangle{scr.bounds()})
	case len(scr.damage) > 0:
		c.seq++
		c.damage.add(c.seq, scr.damage)
	}
	if c.frame == nil || c.frame.Image != scr.img {
		c.taken = false
	}
	c.cursor = s.dec.cursor
	c.publish(scr.img)
}

// publish makes a new frame of the newest pixels; mu is held.
func (c *Client) publish(img *image.RGBA) {
	c.frame = &desktop.Frame{Image: img, Seq: c.seq, At: c.answered}
	if c.held.placed { // otherwise nobody knows where it is
		c.frame.Cursor = desktop.Cursor{Image: c.cursor.img, Hotspot: c.cursor.hot, Pos: c.held.pos}
	}
}
