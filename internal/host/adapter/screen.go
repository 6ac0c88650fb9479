package adapter

import (
	"context"
	"fmt"
	"image"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/capture"
	"github.com/deskfork/deskfork/pkg/guest"
)

// pointerLimit is how long a screenshot waits for the guest to say where the
// pointer is; without an answer the cursor is drawn where the source knows it.
const pointerLimit = 200 * time.Millisecond

// foreverStill bounds a wait for a still screen whose caller named no end.
const foreverStill = time.Hour

// screen is the picture of a desktop.
type screen struct {
	camera *capture.Camera
	source desktop.Source
	// pointer asks the guest where the pointer is.
	pointer func(context.Context) (guest.Point, error)
}

var _ live.Screen = screen{}

// Shot implements live.Screen.
func (s screen) Shot(ctx context.Context, shot live.Shot) (live.Picture, error) {
	opts := capture.Options{Format: capture.PNG, Quality: shot.Quality, MaxWidth: shot.MaxWidth, Cursor: shot.Cursor}
	if shot.JPEG {
		opts.Format = capture.JPEG
	}
	if r := shot.Region; r != nil {
		opts.Region = image.Rect(r.X, r.Y, r.X+r.Width, r.Y+r.Height)
	}
	if shot.Cursor {
		opts.Pointer = s.whereabouts(ctx)
	}
	res, err := s.camera.Shot(ctx, opts)
	if err != nil {
		return live.Picture{}, err
	}
	pic := live.Picture{
		Picture: api.Picture{MIME: res.MIME, Data: res.Bytes, Width: res.Width, Height: res.Height, Scale: res.Scale, Seq: res.Seq},
		ETag:    res.ETag,
	}
	if shot.Unless != "" && shot.Unless == res.ETag {
		pic.Unchanged, pic.Data = true, nil
	}
	return pic, nil
}

func (s screen) whereabouts(ctx context.Context) *image.Point {
	if s.pointer == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, pointerLimit)
	defer cancel()
	p, err := s.pointer(ctx)
	if err != nil {
		return nil // the source may know
	}
	return &image.Point{X: p.X, Y: p.Y}
}

// Wait implements live.Screen.
func (s screen) Wait(ctx context.Context, w live.Waiting) (uint64, error) {
	switch w.For {
	case "notblank":
		return seqOf(s.camera.NotBlank(ctx, 0))
	case "plain":
		return seqOf(s.camera.Plain(ctx, true))
	case "notplain":
		return seqOf(s.camera.Plain(ctx, false))
	case "still":
		limit := foreverStill
		if end, ok := ctx.Deadline(); ok {
			limit = time.Until(end)
		}
		f, still, err := s.camera.Still(ctx, image.Rectangle{}, w.Still, limit)
		if err == nil && !still {
			err = fmt.Errorf("wait for a still screen: %w", context.DeadlineExceeded)
		}
		return seqOf(f, err)
	case "change":
		after := w.After
		if after == 0 {
			f, err := s.source.Frame(ctx)
			if err != nil {
				return 0, err
			}
			after = f.Seq
		}
		return seqOf(s.camera.Change(ctx, after, image.Rectangle{}))
	}
	return 0, api.Errorf(api.CodeInvalid, "wait for %q: want change, still or notblank", w.For)
}

func seqOf(f *desktop.Frame, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	return f.Seq, nil
}
