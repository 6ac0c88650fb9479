package watch

import (
	"context"
	"image"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/viewer"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
)

// Person is the stay of somebody whom the host has let in, and whose input goes
// through the control lease.
func Person(v *viewer.Visit) Visit { return person{v} }

type person struct{ *viewer.Visit }

// Stream implements Visit.
func (p person) Stream() *stream.Stream { return p.Display().Stream }

// Control implements Visit.
func (p person) Control() rtc.Control {
	if p.Controls() {
		return hand{p.Visit}
	}
	return nil
}

// hand is rtc.Control of a visit.
type hand struct{ visit *viewer.Visit }

// Pointer implements rtc.Control.
func (h hand) Pointer(ctx context.Context, _ string, at image.Point, held desktop.Button) error {
	return refusal(h.visit.Pointer(ctx, at.X, at.Y, held))
}

// Key implements rtc.Control.
func (h hand) Key(ctx context.Context, _ string, k desktop.Key, down bool) error {
	return refusal(h.visit.Key(ctx, k, down))
}

// Scroll implements rtc.Control.
func (h hand) Scroll(ctx context.Context, _ string, at, by image.Point) error {
	return refusal(h.visit.Scroll(ctx, at, by))
}

// Text implements rtc.Control.
func (h hand) Text(ctx context.Context, _, text string) error {
	return refusal(h.visit.Text(ctx, text))
}

// Release implements rtc.Control.
func (h hand) Release(ctx context.Context, _ string) error { return refusal(h.visit.Release(ctx)) }

// Stay implements rtc.Control.
func (h hand) Stay(ctx context.Context, _ string) error { return refusal(h.visit.Renew(ctx)) }

// Paste implements rtc.Control.
func (h hand) Paste(ctx context.Context, _, text string) error {
	return refusal(h.visit.Paste(ctx, text))
}

// Copies implements rtc.Control.
func (h hand) Copies(ctx context.Context, _ string, tell func(text string)) {
	h.visit.Copies(ctx, tell)
}

// refused is an error that says its code, in the words of the API.
type refused struct{ err error }

func refusal(err error) error {
	if err == nil {
		return nil
	}
	return refused{err}
}

func (r refused) Error() string { return fault.From(r.err).Detail }

// Code is what a viewer is told.
func (r refused) Code() string { return string(fault.From(r.err).Code) }

func (r refused) Unwrap() error { return r.err }
