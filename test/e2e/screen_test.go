//go:build integration

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// painter shows a window at (100,100), 300x200, and returns a function that
// fills it with a colour by an exec.
func (d desk) painter(t *testing.T) func(colour string) {
	t.Helper()
	dir := d.folder(t)
	d.put(t, dir+"/painter.py", painterPy)
	t.Cleanup(func() { _, _ = d.Exec(context.Background(), "pkill", "-f", "painter.py") })
	return func(colour string) {
		t.Helper()
		d.sh(t, fmt.Sprintf("python3 %s/painter.py %s/window %s", dir, dir, colour))
	}
}

// TestScreenshotIsFresh: what an exec has drawn is in the next screenshot,
// each of twenty times.
func TestScreenshotIsFresh(t *testing.T) {
	d := lend(t)
	paint := d.painter(t)
	paint("ffffff")
	for n := range 20 {
		want := fmt.Sprintf("%02x%02x%02x", 255-n*12, n*12, 128+n)
		paint(want)
		img, _ := d.shot(t, client.ScreenshotOptions{})
		for _, p := range []image.Point{{100, 100}, {250, 200}, {399, 299}} {
			if got := rgb(img, p.X, p.Y); got != want {
				t.Fatalf("picture %d, pixel %v: %s, want %s", n, p, got, want)
			}
		}
	}
}

func TestScreenshotForms(t *testing.T) {
	d := lend(t)
	paint := d.painter(t)
	paint("20c040")
	d.still(t)
	info, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	full, first := d.shot(t, client.ScreenshotOptions{})
	if b := full.Bounds(); b.Dx() != info.Display.Width || b.Dy() != info.Display.Height || first.Scale != 1 {
		t.Errorf("bounds %v, scale %v, display %+v", b, first.Scale, info.Display)
	}
	t.Run("region", func(t *testing.T) {
		img, s := d.shot(t, client.ScreenshotOptions{Region: &api.Region{X: 90, Y: 95, Width: 40, Height: 30}})
		if img.Bounds().Dx() != 40 || img.Bounds().Dy() != 30 || s.Width != 40 {
			t.Errorf("bounds %v", img.Bounds())
		}
		if got := rgb(img, 10, 5); got != "20c040" {
			t.Errorf("first pixel of the window is %s", got)
		}
	})
	t.Run("max width", func(t *testing.T) {
		img, s := d.shot(t, client.ScreenshotOptions{MaxWidth: info.Display.Width / 2})
		if img.Bounds().Dx() != info.Display.Width/2 || s.Scale != 0.5 {
			t.Errorf("bounds %v, scale %v", img.Bounds(), s.Scale)
		}
		if got := rgb(img, 125, 100); got != "20c040" {
			t.Errorf("middle of the window is %s", got)
		}
	})
	t.Run("jpeg", func(t *testing.T) {
		s, err := d.Screen().Screenshot(t.Context(), client.ScreenshotOptions{Format: "jpeg", Quality: 80})
		if err != nil {
			t.Fatal(err)
		}
		if _, kind, err := image.DecodeConfig(bytes.NewReader(s.Data)); err != nil || kind != "jpeg" || s.MIME != "image/jpeg" {
			t.Errorf("%s, %s, %v", kind, s.MIME, err)
		}
	})
	t.Run("cursor", func(t *testing.T) {
		if err := d.Input().Move(t.Context(), 250, 200); err != nil {
			t.Fatal(err)
		}
		d.until(t, 30*time.Second, "a pointer in the picture", func(context.Context) error {
			with, _ := d.shot(t, client.ScreenshotOptions{Cursor: true})
			without, _ := d.shot(t, client.ScreenshotOptions{})
			near := image.Rect(240, 190, 275, 230)
			if same(with, without, near) {
				return errors.New("no difference near the pointer")
			}
			return nil
		})
	})
	t.Run("unchanged", func(t *testing.T) {
		d.still(t)
		_, s := d.shot(t, client.ScreenshotOptions{})
		again, err := d.Screen().Screenshot(t.Context(), client.ScreenshotOptions{ETag: s.ETag})
		if err != nil {
			t.Fatal(err)
		}
		if !again.Unchanged {
			t.Error("a still screen came again in full")
		}
	})
	t.Run("guest source", func(t *testing.T) {
		guest, _ := d.shot(t, client.ScreenshotOptions{Source: "guest"})
		hostside, _ := d.shot(t, client.ScreenshotOptions{Source: "host"})
		if !same(guest, hostside, image.Rect(100, 100, 400, 300)) {
			t.Error("guest and host see other pixels")
		}
	})
	t.Run("outside", func(t *testing.T) {
		_, err := d.Screen().Screenshot(t.Context(), client.ScreenshotOptions{Region: &api.Region{X: 5000, Y: 0, Width: 10, Height: 10}})
		code(t, err, api.CodeInvalid)
	})
}

func same(a, b image.Image, r image.Rectangle) bool {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			if rgb(a, x, y) != rgb(b, x, y) {
				return false
			}
		}
	}
	return true
}

func TestScreenWait(t *testing.T) {
	d := lend(t)
	paint := d.painter(t)
	paint("101010")
	d.still(t)
	_, before := d.shot(t, client.ScreenshotOptions{})
	done := make(chan error, 1)
	go func() {
		reply, err := d.Screen().Wait(t.Context(), client.ScreenWait{For: "change", After: before.Seq, Timeout: time.Minute})
		if err == nil && reply.Seq <= before.Seq {
			err = fmt.Errorf("seq %d after %d", reply.Seq, before.Seq)
		}
		done <- err
	}()
	paint("f0f0f0")
	if err := <-done; err != nil {
		t.Error(err)
	}
	d.still(t)
	if _, err := d.Screen().Wait(t.Context(), client.ScreenWait{For: "notblank", Timeout: time.Minute}); err != nil {
		t.Error(err)
	}
	_, now := d.shot(t, client.ScreenshotOptions{})
	_, err := d.Screen().Wait(t.Context(), client.ScreenWait{For: "change", After: now.Seq, Timeout: time.Second})
	code(t, err, api.CodeDeadline)
}

// TestNothingMoves: an idle desktop draws nothing for ten seconds. What others
// have left behind may take some time to be drawn.
func TestNothingMoves(t *testing.T) {
	d := lend(t)
	d.until(t, time.Minute, "a screen that rests", func(ctx context.Context) error {
		_, now := d.shot(t, client.ScreenshotOptions{})
		moved, err := d.Screen().Wait(ctx, client.ScreenWait{For: "change", After: now.Seq, Timeout: 10 * time.Second})
		if is(err, api.CodeDeadline) {
			return nil
		}
		return fmt.Errorf("%+v, %w", moved, err)
	})
}

func TestDisplayResize(t *testing.T) {
	d := lend(t)
	before, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Screen().Resize(context.Background(), before.Display); err != nil {
			t.Error(err)
		}
	})
	want := api.Display{Width: 1024, Height: 768}
	if err := d.Screen().Resize(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	d.until(t, time.Minute, "a picture of the new size", func(context.Context) error {
		img, _ := d.shot(t, client.ScreenshotOptions{})
		if b := img.Bounds(); b.Dx() != want.Width || b.Dy() != want.Height {
			return fmt.Errorf("bounds %v", b)
		}
		return nil
	})
}
