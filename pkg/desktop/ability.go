package desktop

import (
	"context"
	"image"
	"time"
)

// Confirmer is an optional ability of a Source: a frame that is proven to hold
// everything that was on the screen at a given time.
type Confirmer interface {
	// FrameAfter returns a frame whose At is not before t.
	FrameAfter(ctx context.Context, t time.Time) (*Frame, error)
}

// Damager is an optional ability of a Source: where pixels changed.
type Damager interface {
	// Damage returns rectangles that hold every pixel that may differ between
	// the frame numbered since and the newest one, and that newest number.
	// known is false when since is too old to tell: then anything may differ.
	Damage(since uint64) (rects []image.Rectangle, seq uint64, known bool)
}

// Effect says how far an action's success is proven.
type Effect string

// Effects. An action never succeeds silently: it answers one of these or an
// error.
const (
	Confirmed  Effect = "confirmed"  // pointer or text read back, or pixels changed
	Unverified Effect = "unverified" // delivered; nothing to tell whether it did anything
)
