package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"math"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
)

// dragStep is the time between two moves of a drag.
const dragStep = 15 * time.Millisecond

func (a Drag) act(ctx context.Context, in *Injector) (Result, error) {
	if len(a.Path) == 0 {
		return Result{}, errors.New("drag along no path: name at least one point")
	}
	if a.Duration < 0 || a.Duration > longest {
		return Result{}, fmt.Errorf("drag for %v: use at most %v", a.Duration, longest)
	}
	path, err := in.path(ctx, a.Path)
	if err != nil {
		return Result{}, err
	}
	return in.watched(ctx, func() (Result, error) {
		start, end := path[0], path[len(path)-1]
		if _, err := in.moveTo(ctx, At(start.X, start.Y)); err != nil {
			return Result{}, err
		}
		var r Result
		return r, in.holding(ctx, a.Keys, func() error {
			if err := in.button(ctx, a.Button, true); err != nil {
				return err
			}
			if err := sleep.For(ctx, in.cfg.Press); err != nil {
				return err
			}
			if err := in.along(ctx, path, cmp.Or(a.Duration, 300*time.Millisecond)); err != nil {
				return err
			}
			if r, err = in.moveTo(ctx, At(end.X, end.Y)); err != nil {
				return err
			}
			if err := sleep.For(ctx, in.cfg.Press); err != nil { // programs look where the pointer rests
				return err
			}
			return in.button(ctx, a.Button, false)
		})
	})
}

// path maps a drag's points to the screen, from where the pointer is if there
// is only one.
func (in *Injector) path(ctx context.Context, points []Point) ([]image.Point, error) {
	screen, err := in.screen(ctx)
	if err != nil {
		return nil, err
	}
	var path []image.Point
	if len(points) == 1 {
		if _, err := in.here(ctx); err != nil {
			return nil, err
		}
		path = append(path, in.at)
	}
	for i, p := range points {
		q, err := p.View.ToScreen(screen, image.Pt(p.X, p.Y))
		if err != nil {
			return nil, fmt.Errorf("drag: point %d: %w", i, err)
		}
		path = append(path, q)
	}
	return path, nil
}

// along moves the pointer along a path at constant speed.
func (in *Injector) along(ctx context.Context, path []image.Point, d time.Duration) error {
	length := 0.0
	for i := 1; i < len(path); i++ {
		length += distance(path[i-1], path[i])
	}
	steps := max(int(d/dragStep), 1)
	begun := time.Now()
	for i := 1; i <= steps; i++ {
		if err := sleep.For(ctx, time.Until(begun.Add(d*time.Duration(i)/time.Duration(steps)))); err != nil {
			return err
		}
		p := pointAt(path, length*float64(i)/float64(steps))
		if p == in.at {
			continue
		}
		if err := in.send(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// pointAt is the point of a path at a distance from its start.
func pointAt(path []image.Point, far float64) image.Point {
	for i := 1; i < len(path); i++ {
		a, b := path[i-1], path[i]
		part := distance(a, b)
		if far <= part && part > 0 {
			t := far / part
			return image.Pt(int(math.Round(float64(a.X)+t*float64(b.X-a.X))), int(math.Round(float64(a.Y)+t*float64(b.Y-a.Y))))
		}
		far -= part
	}
	return path[len(path)-1]
}

func distance(a, b image.Point) float64 {
	return math.Hypot(float64(b.X-a.X), float64(b.Y-a.Y))
}
