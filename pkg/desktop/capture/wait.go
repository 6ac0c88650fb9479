package capture

import (
	"context"
	"errors"
	"fmt"
	"image"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Change blocks until pixels within region (empty: anywhere) differ from those
// of the frame numbered since, and returns the frame that shows it. When it
// cannot be known any more what frame since showed, the newest counts as
// changed.
func (c *Camera) Change(ctx context.Context, since uint64, region image.Rectangle) (*desktop.Frame, error) {
	f, err := c.source.Frame(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for change: %w", err)
	}
	if f.Seq != since && c.damaged(since, region) {
		return f, nil
	}
	for {
		next, err := c.source.Next(ctx, f.Seq)
		if err != nil {
			return nil, fmt.Errorf("wait for change: %w", err)
		}
		if !same(f.Image, next.Image, region) {
			return next, nil
		}
		f = next
	}
}

// damaged tells whether region may have changed since a frame.
func (c *Camera) damaged(since uint64, region image.Rectangle) bool {
	d, ok := c.source.(desktop.Damager)
	if !ok {
		return true
	}
	rects, _, known := d.Damage(since)
	if !known || region.Empty() {
		return !known || len(rects) > 0
	}
	for _, r := range rects {
		if r.Overlaps(region) {
			return true
		}
	}
	return false
}

// Still blocks until no pixel within region (empty: anywhere) has changed for
// quiet, but no longer than limit; then still is false. It returns the newest
// frame either way.
func (c *Camera) Still(ctx context.Context, region image.Rectangle, quiet, limit time.Duration) (f *desktop.Frame, still bool, err error) {
	if f, err = c.source.Frame(ctx); err != nil {
		return nil, false, fmt.Errorf("wait for a still screen: %w", err)
	}
	begun := time.Now()
	since, end := begun, begun.Add(limit)
	for {
		until := since.Add(quiet)
		if until.After(end) {
			until = end
		}
		next, err := c.nextUntil(ctx, f.Seq, until)
		if err != nil {
			return nil, false, fmt.Errorf("wait for a still screen: %w", err)
		}
		now := time.Now()
		if next == nil {
			return f, now.Sub(since) >= quiet, nil
		}
		if !same(f.Image, next.Image, region) {
			since = now
		}
		f = next
		if now.Sub(since) >= quiet || !now.Before(end) {
			return f, now.Sub(since) >= quiet, nil
		}
	}
}

// nextUntil is Source.Next with nil for "none until then".
func (c *Camera) nextUntil(ctx context.Context, after uint64, until time.Time) (*desktop.Frame, error) {
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	f, err := c.source.Next(limited, after)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	return f, err
}

// NotBlank blocks until the share of the most common colour is at most
// maxUniform (0: BlankShare), and returns the frame that shows it.
func (c *Camera) NotBlank(ctx context.Context, maxUniform float64) (*desktop.Frame, error) {
	if maxUniform == 0 {
		maxUniform = BlankShare
	}
	return c.until(ctx, "that is not blank", func(img *image.RGBA) bool { return Uniform(img) <= maxUniform })
}

// Plain blocks until the screen is of one colour, or, with no plain, until it is
// not, and returns the frame that shows it.
func (c *Camera) Plain(ctx context.Context, plain bool) (*desktop.Frame, error) {
	what := "of more than one colour"
	if plain {
		what = "of one colour"
	}
	return c.until(ctx, what, func(img *image.RGBA) bool { return Plain(img) == plain })
}

func (c *Camera) until(ctx context.Context, what string, ok func(*image.RGBA) bool) (*desktop.Frame, error) {
	f, err := c.source.Frame(ctx)
	for err == nil && !ok(f.Image) {
		f, err = c.source.Next(ctx, f.Seq)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a screen %s: %w", what, err)
	}
	return f, nil
}

// DrawnOptions say when a desktop counts as drawn. Zero values mean the stated
// defaults.
type DrawnOptions struct {
	MinSize    image.Point   // default 800x600: firmware and consoles are smaller
	MaxUniform float64       // default DrawnShare
	Quiet      time.Duration // how long the screen must be still; default 500 ms
	Limit      time.Duration // after this it need not be still; default 10 s
}

// Drawn blocks until the screen is large enough, shows more than a console, and
// is still; it returns that frame.
func (c *Camera) Drawn(ctx context.Context, o DrawnOptions) (*desktop.Frame, error) {
	if o.MinSize == (image.Point{}) {
		o.MinSize = image.Pt(800, 600)
	}
	if o.MaxUniform == 0 {
		o.MaxUniform = DrawnShare
	}
	if o.Quiet == 0 {
		o.Quiet = 500 * time.Millisecond
	}
	if o.Limit == 0 {
		o.Limit = 10 * time.Second
	}
	for {
		f, err := c.source.Frame(ctx)
		for err == nil && !o.drawn(f.Image) {
			f, err = c.source.Next(ctx, f.Seq)
		}
		if err != nil {
			return nil, fmt.Errorf("wait for a drawn desktop: %w", err)
		}
		f, _, err = c.Still(ctx, image.Rectangle{}, o.Quiet, o.Limit)
		if err != nil {
			return nil, fmt.Errorf("wait for a drawn desktop: %w", err)
		}
		if o.drawn(f.Image) {
			return f, nil
		}
	}
}

func (o DrawnOptions) drawn(img *image.RGBA) bool {
	size := img.Rect.Size()
	return size.X >= o.MinSize.X && size.Y >= o.MinSize.Y && Uniform(img) <= o.MaxUniform
}
