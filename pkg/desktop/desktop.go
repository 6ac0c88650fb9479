// Package desktop names what a screen with a pointer and a keyboard is to
// Deskfork, and the coordinate contract everybody keeps: one space, the pixels
// of the guest's screen, origin top left, (0,0) valid. It depends on the
// standard library alone.
package desktop

import (
	"context"
	"errors"
	"image"
	"time"
)

// Sentinels that callers branch on.
var (
	ErrOutside     = errors.New("point outside the screen")
	ErrUnknownKey  = errors.New("unknown key")
	ErrNoDisplay   = errors.New("no display")
	ErrDisconnect  = errors.New("display disconnected")
	ErrUnsupported = errors.New("not supported by this input path")
)

// Frame is one picture of the whole screen. It is immutable once handed out.
type Frame struct {
	Image  *image.RGBA // opaque; bounds start at (0,0)
	Seq    uint64      // grows with every change of pixels or size; equal Seq means equal pixels
	At     time.Time   // when the source last confirmed that these are the pixels
	Cursor Cursor
}

// Cursor is the pointer's picture, kept apart from the frame's pixels.
type Cursor struct {
	Image   *image.RGBA // nil when hidden or unknown
	Hotspot image.Point // within Image
	Pos     image.Point // of the hotspot, on the screen
}

// Source is where pixels come from. Safe for concurrent use.
type Source interface {
	// Frame returns the screen as it is now: never older than 50 ms.
	Frame(ctx context.Context) (*Frame, error)
	// Next blocks until a frame with Seq > after exists.
	Next(ctx context.Context, after uint64) (*Frame, error)
}

// Button is a bit of the pointer's state, numbered as in RFB: bit n-1 for
// button n.
type Button uint16

// Buttons.
const (
	ButtonLeft    Button = 1 << 0
	ButtonMiddle  Button = 1 << 1
	ButtonRight   Button = 1 << 2
	WheelUp       Button = 1 << 3
	WheelDown     Button = 1 << 4
	WheelLeft     Button = 1 << 5
	WheelRight    Button = 1 << 6
	ButtonBack    Button = 1 << 7
	ButtonForward Button = 1 << 8
)

// Keysym is an X11 keysym: what a key means (XKB_KEY_* of keysymdef.h).
type Keysym uint32

// Keycode is a physical key: a PC/AT set-1 scancode in QEMU's encoding
// (0x80 | code for the 0xe0-prefixed ones); 0 when only the keysym is known.
type Keycode uint32

// Key is one key by meaning and, where known, by place.
type Key struct {
	Sym  Keysym
	Code Keycode
}

// Input is where events go. Calls are applied in order.
type Input interface {
	// Pointer moves to (x, y) with exactly these buttons held.
	// ErrOutside when the point is not on the screen; ErrUnsupported when the
	// path lacks a button.
	Pointer(ctx context.Context, x, y int, buttons Button) error
	// Key presses or releases one key.
	Key(ctx context.Context, k Key, down bool) error
	// Release lets go of every key and button that this Input holds down.
	Release(ctx context.Context) error
}
