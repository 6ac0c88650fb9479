package window

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	// confirmLimit bounds the wait for a change to be seen: window managers
	// answer in milliseconds, emulated machines in a second or two.
	confirmLimit = 4 * time.Second

	// still is for how long a changed window must stay as it is: managers tell
	// state, frame and size one after the other.
	still = 60 * time.Millisecond

	sourcePager    = 2 // EWMH: the request comes from a pager, not from the window's program
	stateRemove    = 0
	stateAdd       = 1
	iconicState    = 3 // ICCCM 4.1.3.1
	gravityNW      = 1
	moveResizeX    = 1 << 8
	moveResizeY    = 1 << 9
	moveResizeW    = 1 << 10
	moveResizeH    = 1 << 11
	moveResizeFrom = sourcePager << 12
)

// inner is where the window is without its frame.
func (ws *Windows) inner(id xproto.Window) (Rect, error) {
	g, err := xproto.GetGeometry(ws.d.Conn, xproto.Drawable(id)).Reply()
	if err != nil {
		return Rect{}, display.Wrap(err, "read window geometry")
	}
	at, err := xproto.TranslateCoordinates(ws.d.Conn, id, ws.d.Root, 0, 0).Reply()
	if err != nil {
		return Rect{}, display.Wrap(err, "read window position")
	}
	return Rect{X: int(at.DstX), Y: int(at.DstY), Width: int(g.Width), Height: int(g.Height)}, nil
}

// extents returns the frame around a window: the manager's, and less the
// shadow that programs draw inside their own window.
func (ws *Windows) extents(id xproto.Window) (Extents, error) {
	frame, err := ws.d.Cards(id, "_NET_FRAME_EXTENTS")
	if err != nil {
		return Extents{}, err
	}
	shadow, err := ws.d.Cards(id, "_GTK_FRAME_EXTENTS")
	if err != nil {
		return Extents{}, err
	}
	f, s := ParseExtents(frame), ParseExtents(shadow)
	return Extents{Left: f.Left - s.Left, Right: f.Right - s.Right, Top: f.Top - s.Top, Bottom: f.Bottom - s.Bottom}, nil
}

func (ws *Windows) outer(id xproto.Window) (Rect, error) {
	in, err := ws.inner(id)
	if err != nil {
		return in, err
	}
	e, err := ws.extents(id)
	return in.Grow(e), err
}

// change is what an operation sends and how its effect is seen.
type change struct {
	send func() error
	seen func(guest.Window) bool
}

// Change plays op and waits until its effect is seen, at most 4 s: then it is
// confirmed, else unverified. CodeNotFound when the window is gone,
// CodeInvalid for an unknown operation, CodeUnsupported without a window
// manager.
func (ws *Windows) Change(ctx context.Context, op guest.WindowOp) (guest.WindowDone, error) {
	id := xproto.Window(op.ID)
	if op.ID == 0 || op.ID > uint64(^uint32(0)) {
		return guest.WindowDone{}, &guest.Error{Code: guest.CodeNotFound, Message: fmt.Sprintf("window %d: there is no such window", op.ID)}
	}
	before, err := ws.Get(id)
	if err != nil {
		return guest.WindowDone{}, err
	}
	managed, err := ws.managed()
	if err != nil {
		return guest.WindowDone{}, err
	}
	if !managed {
		return guest.WindowDone{}, &guest.Error{Code: guest.CodeUnsupported, Message: "change window: no window manager runs in this session"}
	}
	if op.Op == "close" {
		return ws.close(ctx, id)
	}
	c, err := ws.plan(id, op, before)
	if err != nil {
		return guest.WindowDone{}, err
	}
	if err := c.send(); err != nil {
		return guest.WindowDone{}, err
	}
	var now, last guest.Window
	var since time.Time // when it was first seen as last
	ok, err := ws.d.Until(ctx, confirmLimit, func() (bool, error) {
		var err error
		if now, err = ws.Get(id); err != nil {
			return false, err
		}
		if now != last {
			last, since = now, time.Now()
		}
		return c.seen(now) && time.Since(since) >= still, nil
	})
	if err != nil {
		return guest.WindowDone{}, err
	}
	return guest.WindowDone{Effect: effect(ok), Window: &now}, nil
}

func effect(ok bool) guest.Effect {
	if ok {
		return guest.EffectConfirmed
	}
	return guest.EffectUnverified
}

func (ws *Windows) plan(id xproto.Window, op guest.WindowOp, before guest.Window) (change, error) {
	switch op.Op {
	case "focus":
		return change{ws.activate(id), func(w guest.Window) bool { return w.Active && !w.Minimized }}, nil
	case "move":
		return change{ws.place(id, op), func(w guest.Window) bool { return w.X == op.X && w.Y == op.Y }}, nil
	case "resize":
		if min(op.Width, op.Height) < 1 || max(op.Width, op.Height) >= 1<<15 {
			return change{}, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("resize window to %dx%d: give a size of 1 to 32767 pixels", op.Width, op.Height)}
		}
		return change{ws.place(id, op), func(w guest.Window) bool { return w.Width == op.Width && w.Height == op.Height }}, nil
	case "maximize":
		return change{ws.maximize(id, stateAdd), grown(before)}, nil
	case "minimize":
		send := func() error { return ws.d.Tell(id, "WM_CHANGE_STATE", iconicState) }
		return change{send, func(w guest.Window) bool { return w.Minimized }}, nil
	case "restore":
		if before.Minimized {
			return change{ws.activate(id), func(w guest.Window) bool { return !w.Minimized }}, nil
		}
		return change{ws.maximize(id, stateRemove), shrunk(before)}, nil
	}
	return change{}, &guest.Error{
		Code:    guest.CodeInvalid,
		Message: fmt.Sprintf("window operation %q: use focus, move, resize, close, maximize, minimize or restore", op.Op),
	}
}

// grown sees a maximized window; its state may be told before its size follows.
func grown(before guest.Window) func(guest.Window) bool {
	return func(w guest.Window) bool {
		return w.Maximized && (before.Maximized || w.Width > before.Width || w.Height > before.Height)
	}
}

// shrunk sees a window that is no longer maximized.
func shrunk(before guest.Window) func(guest.Window) bool {
	return func(w guest.Window) bool {
		return !w.Maximized && (!before.Maximized || w.Width < before.Width || w.Height < before.Height)
	}
}

func (ws *Windows) activate(id xproto.Window) func() error {
	return func() error { return ws.d.Tell(id, "_NET_ACTIVE_WINDOW", sourcePager) }
}

func (ws *Windows) maximize(id xproto.Window, action uint32) func() error {
	return func() error {
		vert, err := ws.d.Atom("_NET_WM_STATE_MAXIMIZED_VERT")
		if err != nil {
			return err
		}
		horz, err := ws.d.Atom("_NET_WM_STATE_MAXIMIZED_HORZ")
		if err != nil {
			return err
		}
		return ws.d.Tell(id, "_NET_WM_STATE", action, uint32(vert), uint32(horz), sourcePager)
	}
}

// place moves or resizes the frame of a window. The position in the request is
// the frame's corner, the size that of the window inside.
func (ws *Windows) place(id xproto.Window, op guest.WindowOp) func() error {
	return func() error {
		frame, err := ws.extents(id)
		if err != nil {
			return err
		}
		shadow, err := ws.d.Cards(id, "_GTK_FRAME_EXTENTS")
		if err != nil {
			return err
		}
		s := ParseExtents(shadow)
		if op.Op == "move" {
			return ws.d.Tell(id, "_NET_MOVERESIZE_WINDOW", gravityNW|moveResizeX|moveResizeY|moveResizeFrom,
				uint32(int32(op.X-s.Left)), uint32(int32(op.Y-s.Top)))
		}
		in := Rect{Width: op.Width, Height: op.Height}.Shrink(frame)
		return ws.d.Tell(id, "_NET_MOVERESIZE_WINDOW", gravityNW|moveResizeW|moveResizeH|moveResizeFrom,
			0, 0, uint32(in.Width), uint32(in.Height))
	}
}

// close asks the window to close. A program that asks back ("save changes?")
// keeps it open: then the effect is unverified.
func (ws *Windows) close(ctx context.Context, id xproto.Window) (guest.WindowDone, error) {
	if err := ws.d.Tell(id, "_NET_CLOSE_WINDOW", xproto.TimeCurrentTime, sourcePager); err != nil {
		return guest.WindowDone{}, err
	}
	var now guest.Window
	gone, err := ws.d.Until(ctx, confirmLimit, func() (bool, error) {
		var err error
		now, err = ws.Get(id)
		if errors.Is(err, errGone) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		a, err := xproto.GetWindowAttributes(ws.d.Conn, id).Reply()
		if err != nil {
			return errors.Is(display.Wrap(err, ""), errGone), nil
		}
		// Some programs hide a closed window instead of destroying it.
		return a.MapState == xproto.MapStateUnmapped && !now.Minimized, nil
	})
	if err != nil {
		return guest.WindowDone{}, err
	}
	if gone {
		return guest.WindowDone{Effect: guest.EffectConfirmed}, nil
	}
	return guest.WindowDone{Effect: guest.EffectUnverified, Window: &now}, nil
}
