package capture_test

import (
	"context"
	"errors"
	"image"
	"image/color"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop/capture"
)

var (
	corner = image.Rect(0, 0, 4, 4)
	middle = image.Rect(20, 20, 30, 30)
)

// later paints after a while.
func later(s *screen, d time.Duration, r image.Rectangle, v byte) {
	time.AfterFunc(d, func() { s.paint(r, color.RGBA{v, v, v, 255}) })
}

func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(few(60, 40, 3))
		c := camera(t, s)
		later(s, time.Second, corner, 200)
		later(s, 2*time.Second, middle, 201)
		begun := time.Now()
		f, err := c.Change(t.Context(), 1, image.Rectangle{})
		if err != nil || f.Seq != 2 || time.Since(begun) != time.Second {
			t.Errorf("anywhere: frame %+v after %v, %v", f, time.Since(begun), err)
		}
		f, err = c.Change(t.Context(), 1, middle)
		if err != nil || f.Seq != 3 || time.Since(begun) != 2*time.Second {
			t.Errorf("in the middle: frame %+v after %v, %v", f, time.Since(begun), err)
		}
		if f, err = c.Change(t.Context(), 1, middle); err != nil || f.Seq != 3 {
			t.Errorf("already changed: %+v, %v", f, err)
		}
		later(s, time.Second, middle, 201) // the same colour again
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if f, err := c.Change(ctx, 3, image.Rectangle{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nothing changed: %+v, %v", f, err)
		}
	})
}

func TestStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(few(60, 40, 3))
		c := camera(t, s)
		for i := range 5 {
			later(s, time.Duration(i+1)*300*time.Millisecond, corner, byte(100+i))
		}
		begun := time.Now()
		f, still, err := c.Still(t.Context(), image.Rectangle{}, 500*time.Millisecond, 10*time.Second)
		if err != nil || !still || f.Seq != 6 || time.Since(begun) != 2*time.Second {
			t.Errorf("frame %d, still %v after %v, %v", f.Seq, still, time.Since(begun), err)
		}
		for i := range 20 {
			later(s, time.Duration(i+1)*300*time.Millisecond, corner, byte(100+i))
		}
		begun = time.Now()
		_, still, err = c.Still(t.Context(), image.Rectangle{}, 500*time.Millisecond, 2*time.Second)
		if err != nil || still || time.Since(begun) != 2*time.Second {
			t.Errorf("never still: %v after %v, %v", still, time.Since(begun), err)
		}
		begun = time.Now()
		_, still, err = c.Still(t.Context(), middle, 500*time.Millisecond, 2*time.Second)
		if err != nil || !still || time.Since(begun) != 500*time.Millisecond {
			t.Errorf("still in the middle: %v after %v, %v", still, time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, _, err := c.Still(ctx, middle, time.Second, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

func TestPlain(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 640, 480))
	if !capture.Plain(img) {
		t.Error("black is not plain")
	}
	for _, at := range []image.Point{{}, {X: 639, Y: 479}, {X: 1, Y: 77}} {
		img := image.NewRGBA(img.Rect)
		img.Pix[img.PixOffset(at.X, at.Y)]++
		if capture.Plain(img) {
			t.Errorf("plain with another pixel at %v", at)
		}
	}
	stripes := image.NewRGBA(img.Rect)
	for i := range stripes.Pix {
		stripes.Pix[i] = uint8(i / stripes.Stride)
	}
	if capture.Plain(stripes) {
		t.Error("rows of their own colours are plain")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(few(1024, 768, 1))
		c := camera(t, s)
		if f, err := c.Plain(t.Context(), true); err != nil || f.Seq != 1 {
			t.Errorf("plain: %+v, %v", f, err)
		}
		later(s, time.Second, image.Rect(10, 10, 11, 11), 255)
		if f, err := c.Plain(t.Context(), false); err != nil || f.Seq != 2 {
			t.Errorf("not plain: %+v, %v", f, err)
		}
	})
}

func TestNotBlankAndDrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScreen(few(1024, 768, 1))
		c := camera(t, s)
		if u := capture.Uniform(s.img); u != 1 {
			t.Fatalf("a plain screen is %v uniform", u)
		}
		later(s, time.Second, image.Rect(10, 10, 60, 40), 255) // a word of text
		begun := time.Now()
		if f, err := c.NotBlank(t.Context(), 0); err != nil || f.Seq != 2 {
			t.Errorf("not blank: %+v, %v", f, err)
		}
		later(s, time.Second, image.Rect(0, 0, 1024, 30), 50) // a panel
		later(s, 1300*time.Millisecond, corner, 60)
		f, err := c.Drawn(t.Context(), capture.DrawnOptions{})
		if err != nil || f.Seq != 4 || time.Since(begun) != 2800*time.Millisecond {
			t.Errorf("drawn: frame %+v after %v, %v", f, time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := camera(t, newScreen(desk(640, 480))).Drawn(ctx, capture.DrawnOptions{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a small screen counts as a drawn desktop: %v", err)
		}
	})
}
