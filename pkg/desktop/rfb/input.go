package rfb

import (
	"context"
	"fmt"
	"image"
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// held is what this client holds down, and where the pointer is.
type held struct {
	keys    []desktop.Key // in the order of pressing
	buttons desktop.Button
	stuck   bool // buttons were held when the connection broke
	pos     image.Point
	placed  bool // pos is known
}

func (h *held) any() bool { return len(h.keys) > 0 || (h.buttons != 0 && !h.stuck) }

// lost notes that the connection is gone: QEMU lifts keys then, not buttons.
func (h *held) lost() {
	h.keys = nil
	h.stuck = h.buttons != 0
}

// appendPointer places the pointer. QEMU spreads 0..width over a tablet's
// 0..32767 and rounds down, and so does the guest on the way back, so that x
// would arrive at x-1; and a tablet that has not moved yet takes 0 for no news.
// x+1 arrives at x, from 0 to the last pixel.
func (s *session) appendPointer(b []byte, p image.Point, buttons desktop.Button) []byte {
	if s.qemu {
		p = p.Add(image.Pt(1, 1))
	}
	return appendPointer(b, p.X, p.Y, buttons)
}

// Pointer moves the pointer and sets its buttons. ErrUnsupported when the
// guest has no absolute pointer (yet), or for buttons that the server lacks:
// QEMU knows left, middle, right and the vertical wheel.
func (c *Client) Pointer(ctx context.Context, x, y int, buttons desktop.Button) error {
	return c.input(ctx, func(s *session) ([]byte, error) {
		known := desktop.Button(0xff)
		if s.qemu {
			known = 0x1f
		}
		if buttons&^known != 0 {
			return nil, fmt.Errorf("press buttons %#x: the display's server knows %#x only: %w", buttons, known, desktop.ErrUnsupported)
		}
		if !image.Pt(x, y).In(image.Rectangle{Max: s.size}) {
			return nil, fmt.Errorf("move pointer to (%d,%d) on a %dx%d screen: %w", x, y, s.size.X, s.size.Y, desktop.ErrOutside)
		}
		if s.relative {
			return nil, fmt.Errorf("move pointer: the guest has no absolute pointer yet: %w", desktop.ErrUnsupported)
		}
		var b []byte
		h := &c.held
		if h.stuck { // press again what the last connection left pressed
			b = s.appendPointer(b, image.Pt(x, y), h.buttons|buttons)
			h.stuck = false
		}
		h.pos, h.placed, h.buttons = image.Pt(x, y), true, buttons
		if c.frame != nil {
			c.publish(c.frame.Image)
		}
		return s.appendPointer(b, h.pos, buttons), nil
	})
}

// Key presses or releases a key: by place where the key has one and the server
// takes it, otherwise by keysym. ErrUnsupported for a key without a place on
// QEMU, which would drop it without a word.
func (c *Client) Key(ctx context.Context, k desktop.Key, down bool) error {
	return c.input(ctx, func(s *session) ([]byte, error) {
		var b []byte
		switch {
		case k.Code != 0 && s.extKeys:
			b = appendExtKey(nil, k, down)
		case s.qemu && k.Code == 0:
			return nil, fmt.Errorf("press keysym %#x: no key of a US keyboard: %w", k.Sym, desktop.ErrUnsupported)
		default:
			b = appendKey(nil, k.Sym, down)
		}
		i := slices.Index(c.held.keys, k)
		if down && i < 0 {
			c.held.keys = append(c.held.keys, k)
		} else if !down && i >= 0 {
			c.held.keys = slices.Delete(c.held.keys, i, i+1)
		}
		return b, nil
	})
}

// Release lets go of every key, last pressed first, and of every button.
func (c *Client) Release(ctx context.Context) error {
	c.mu.Lock()
	idle := !c.held.any() && !c.held.stuck
	c.mu.Unlock()
	if idle {
		return nil
	}
	return c.input(ctx, func(s *session) ([]byte, error) {
		var b []byte
		h := &c.held
		for _, k := range slices.Backward(h.keys) {
			if k.Code != 0 && s.extKeys {
				b = appendExtKey(b, k, false)
			} else {
				b = appendKey(b, k.Sym, false)
			}
		}
		if h.stuck {
			b = s.appendPointer(b, h.pos, h.buttons)
		}
		if h.buttons != 0 {
			b = s.appendPointer(b, h.pos, 0)
		}
		h.keys, h.buttons, h.stuck = nil, 0, false
		return b, nil
	})
}

// input waits for a connection whose abilities are known, lets encode make the
// message, with mu held, and sends it. Frames from before do not count as
// fresh any more.
func (c *Client) input(ctx context.Context, encode func(*session) ([]byte, error)) error {
	c.imu.Lock()
	defer c.imu.Unlock()
	c.mu.Lock()
	err := c.await(ctx, func() bool { return c.sess != nil && c.sess.started })
	if err != nil {
		c.mu.Unlock()
		return err
	}
	s := c.sess
	b, err := encode(s)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if len(b) > 0 {
		err = s.write(ctx, b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.touched = time.Now()
	c.lastUse = c.touched
	c.wake()
	return err
}
