package inject

import (
	"context"
	"image"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Action is one thing to do: Move, Down, Up, Click, Drag, Scroll, Key, KeyDown,
// KeyUp, Hold, Text or Wait.
type Action interface {
	act(ctx context.Context, in *Injector) (Result, error)
}

// Point is a place on the screen, or on an image of it: with the zero View, in
// screen pixels.
type Point struct {
	X, Y int
	View desktop.View
}

// At returns a point in screen pixels, for the fields that may be nil.
func At(x, y int) *Point { return &Point{X: x, Y: y} }

// Move moves the pointer.
type Move struct{ To Point }

// Down presses a button and holds it.
type Down struct {
	At     *Point         // nil: where the pointer is
	Button desktop.Button // one; 0: left
}

// Up releases a button.
type Up struct {
	At     *Point // moved to before releasing; nil: where the pointer is
	Button desktop.Button
}

// Click presses and releases a button, Count times in quick succession.
type Click struct {
	At     *Point
	Button desktop.Button
	Count  int      // 0: once; at most 10
	Keys   []string // held meanwhile
}

// Drag presses a button at the path's first point, moves along it at constant
// speed, and releases the button at its last point, or when anything fails.
type Drag struct {
	Path     []Point // with one point: from where the pointer is
	Button   desktop.Button
	Duration time.Duration // 0: 300 ms; at most 1 minute
	Keys     []string
}

// Scroll turns the wheel.
type Scroll struct {
	At     *Point
	DX, DY int // steps; right and down are positive; at most 1000 each way
	Keys   []string
}

// Key presses keys together and releases them: names or chords such as
// "ctrl+shift+t".
type Key struct{ Keys []string }

// KeyDown presses keys and holds them.
type KeyDown struct{ Keys []string }

// KeyUp releases keys, last named first.
type KeyUp struct{ Keys []string }

// Hold holds keys for a while. With a rate the last key is pressed again and
// again, as a keyboard's repeat would: guests have theirs off.
type Hold struct {
	Keys     []string
	Duration time.Duration // at most 1 minute
	Rate     float64       // presses a second; 0: none but the first; at most Config.Rate
}

// Text types text. Newline, tab and every Unicode character may be in it.
type Text struct{ Text string }

// Wait does nothing for a while, at most 1 minute.
type Wait struct{ Duration time.Duration }

var _ = []Action{Move{}, Down{}, Up{}, Click{}, Drag{}, Scroll{}, Key{}, KeyDown{}, KeyUp{}, Hold{}, Text{}, Wait{}}

// Helper is the guest's side of input: what the hypervisor's devices cannot do.
// Errors that match desktop.ErrNoDisplay say that the guest has no desktop
// session now.
type Helper interface {
	// Input performs events in order and returns when they are done.
	Input(ctx context.Context, events []Event) error
	// Pointer returns where the display server has the pointer, in screen
	// pixels.
	Pointer(ctx context.Context) (image.Point, error)
	// Text brings a text into what has the focus, by keys at a rate in characters a
	// second, or, with rate 0, the quickest way that is exact.
	Text(ctx context.Context, text string, rate int) (Result, error)
}

// EventKind is what an Event does.
type EventKind string

// Event kinds.
const (
	EventMove   EventKind = "move"
	EventButton EventKind = "button"
	EventKey    EventKind = "key"
	EventScroll EventKind = "scroll"
)

// Event is one step of the helper's input, in screen pixels.
type Event struct {
	Kind   EventKind
	At     image.Point    // of a move
	Button desktop.Button // one
	Key    desktop.Key
	Down   bool // of a button or key
	DX, DY int  // steps; right and down are positive
}
