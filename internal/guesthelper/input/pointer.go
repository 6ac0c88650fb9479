package input

import (
	"context"
	"fmt"
	"time"

	"github.com/jezek/xgb/xproto"
	"github.com/jezek/xgb/xtest"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

// Buttons of the pointer, numbered as in X11.
const (
	buttonLeft  = 1
	buttonRight = 3
	wheelUp     = 4
	wheelDown   = 5
	wheelLeft   = 6
	wheelRight  = 7
	buttonLast  = 9
)

// pointer is a way to move the pointer and to press buttons. Each call returns
// after the server has played it.
type pointer interface {
	move(x, y int) error
	button(n int, down bool) error
	// step turns the vertical wheel by one.
	step(down bool) error
}

// xtestPointer plays through XTEST on the helper's own connection.
type xtestPointer struct{ d *display.Display }

var _ pointer = xtestPointer{}

func (p xtestPointer) move(x, y int) error {
	return fake(p.d, xproto.MotionNotify, 0, x, y)
}

func (p xtestPointer) button(n int, down bool) error {
	kind := byte(xproto.ButtonRelease)
	if down {
		kind = xproto.ButtonPress
	}
	return fake(p.d, kind, byte(n), 0, 0)
}

func (p xtestPointer) step(down bool) error {
	if down {
		return click(p, wheelDown)
	}
	return click(p, wheelUp)
}

func click(p pointer, n int) error {
	if err := p.button(n, true); err != nil {
		return err
	}
	return p.button(n, false)
}

// fake plays one event and waits until the server has.
func fake(d *display.Display, kind, detail byte, x, y int) error {
	err := xtest.FakeInputChecked(d.Conn, kind, detail, 0, d.Root, int16(x), int16(y), 0).Check()
	return display.Wrap(err, "play input")
}

// at reads where the pointer is and which buttons and modifiers are down.
func (p *Player) at() (*xproto.QueryPointerReply, error) {
	r, err := xproto.QueryPointer(p.d.Conn, p.d.Root).Reply()
	return r, display.Wrap(err, "read pointer")
}

// Pointer returns where the pointer is.
func (p *Player) Pointer() (guest.Point, error) {
	r, err := p.at()
	if err != nil {
		return guest.Point{}, err
	}
	return guest.Point{X: int(r.RootX), Y: int(r.RootY)}, nil
}

func (p *Player) move(x, y int) (guest.Effect, error) {
	g, err := xproto.GetGeometry(p.d.Conn, xproto.Drawable(p.d.Root)).Reply()
	if err != nil {
		return "", display.Wrap(err, "read screen size")
	}
	if x < 0 || y < 0 || x >= int(g.Width) || y >= int(g.Height) {
		return "", invalid("point (%d, %d) is outside the screen of %dx%d", x, y, g.Width, g.Height)
	}
	if err := p.pointer.move(x, y); err != nil {
		return "", err
	}
	now, err := p.Pointer()
	return effect(now == guest.Point{X: x, Y: y}), err
}

func (p *Player) press(ctx context.Context, n int, down bool) (guest.Effect, error) {
	if n < buttonLeft || n > buttonLast {
		return "", invalid("button %d: use 1 to 9", n)
	}
	if down {
		p.buttons[n] = true
	}
	if err := p.buttonPath(n).button(n, down); err != nil {
		return "", err
	}
	if !down {
		delete(p.buttons, n)
	}
	if n > wheelDown { // the server reports the state of five buttons only
		return guest.EffectUnverified, nil
	}
	// A window manager that looks at each press first delays it.
	ok, err := p.d.Until(ctx, seenLimit, func() (bool, error) {
		r, err := p.at()
		return err == nil && (r.Mask&(xproto.ButtonMask1<<(n-1)) != 0) == down, err
	})
	return effect(ok), err
}

// seenLimit bounds the wait for a button or key to be seen in its new state.
const seenLimit = 500 * time.Millisecond

// buttonPath is XTEST for the buttons that the main path has no name for.
func (p *Player) buttonPath(n int) pointer {
	if n > buttonRight {
		return xtestPointer{p.d}
	}
	return p.pointer
}

// stepGap is between two steps of a wheel. Window managers hold each press up
// until they have seen it, and programs lose steps that come in one instant.
const stepGap = 12 * time.Millisecond

func (p *Player) scroll(ctx context.Context, dx, dy int) (guest.Effect, error) {
	const most = 1000
	if max(dx, -dx) > most || max(dy, -dy) > most {
		return "", invalid("scroll by (%d, %d): at most %d steps", dx, dy, most)
	}
	for range max(dy, -dy) {
		if err := p.pointer.step(dy > 0); err != nil {
			return "", err
		}
		if err := p.d.Sleep(ctx, stepGap); err != nil {
			return "", err
		}
	}
	n := wheelRight
	if dx < 0 {
		n = wheelLeft
	}
	for range max(dx, -dx) {
		if err := click(xtestPointer{p.d}, n); err != nil {
			return "", err
		}
		if err := p.d.Sleep(ctx, stepGap); err != nil {
			return "", err
		}
	}
	return guest.EffectUnverified, nil
}

func effect(ok bool) guest.Effect {
	if ok {
		return guest.EffectConfirmed
	}
	return guest.EffectUnverified
}

func invalid(format string, args ...any) error {
	return &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
