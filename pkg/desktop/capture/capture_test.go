package capture_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
	"image/png"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/capture"
)

func camera(tb testing.TB, s desktop.Source) *capture.Camera {
	tb.Helper()
	c, err := capture.New(capture.Config{Source: s})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func shot(tb testing.TB, c *capture.Camera, o capture.Options) *capture.Result {
	tb.Helper()
	r, err := c.Shot(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func decode(tb testing.TB, r *capture.Result) *image.RGBA {
	tb.Helper()
	var img image.Image
	var err error
	if r.MIME == "image/jpeg" {
		img, err = jpeg.Decode(bytes.NewReader(r.Bytes))
	} else {
		img, err = png.Decode(bytes.NewReader(r.Bytes))
	}
	if err != nil {
		tb.Fatal(err)
	}
	if img.Bounds().Size() != image.Pt(r.Width, r.Height) {
		tb.Errorf("picture of %v says %dx%d", img.Bounds().Size(), r.Width, r.Height)
	}
	out := image.NewRGBA(image.Rectangle{Max: img.Bounds().Size()})
	draw.Draw(out, out.Rect, img, img.Bounds().Min, draw.Src)
	return out
}

// few is a picture of at most n colours.
func few(w, h, n int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		c := i * 7 % n
		copy(img.Pix[4*i:], []byte{byte(c), byte(c >> 8), byte(255 - c), 255})
	}
	return img
}

// What image/png reads is what was on the screen.
func TestPNGIsExact(t *testing.T) {
	for name, img := range map[string]*image.RGBA{
		"many colours": desk(333, 101), "1 colour": few(50, 20, 1), "2 colours": few(50, 20, 2),
		"256 colours": few(64, 64, 256), "257 colours": few(64, 64, 257), "1 pixel": few(1, 1, 1),
		"65536 colours": few(256, 256, 65536),
	} {
		t.Run(name, func(t *testing.T) {
			c := camera(t, newScreen(img))
			for range 2 { // the second time with used buffers
				got := decode(t, shot(t, c, capture.Options{}))
				if !bytes.Equal(got.Pix, img.Pix) {
					t.Fatal("the picture differs from the screen")
				}
				c = camera(t, newScreen(img))
			}
		})
	}
}

func TestRegionAndScale(t *testing.T) {
	img := desk(640, 400)
	s := newScreen(img)
	c := camera(t, s)
	r := shot(t, c, capture.Options{Region: image.Rect(100, 50, 164, 90)})
	got := decode(t, r)
	for _, p := range []image.Point{{0, 0}, {63, 39}, {10, 20}} {
		if want := img.RGBAAt(100+p.X, 50+p.Y); got.RGBAAt(p.X, p.Y) != want {
			t.Errorf("%v is %v, want %v", p, got.RGBAAt(p.X, p.Y), want)
		}
	}
	if r.Scale != 1 || r.Width != 64 || r.Height != 40 {
		t.Errorf("region: %dx%d at %v", r.Width, r.Height, r.Scale)
	}
	if p, err := r.View.ToScreen(r.Screen, image.Pt(63, 39)); err != nil || p != image.Pt(163, 89) {
		t.Errorf("last pixel of the region maps to %v, %v", p, err)
	}
	if r := shot(t, c, capture.Options{MaxWidth: 320}); r.Scale != 0.5 || r.Width != 320 || r.Height != 200 {
		t.Errorf("scaled: %dx%d at %v", r.Width, r.Height, r.Scale)
	}
	if r := shot(t, c, capture.Options{MaxWidth: 4000}); r.Scale != 1 || r.Width != 640 {
		t.Errorf("never enlarged: %dx%d at %v", r.Width, r.Height, r.Scale)
	}
	if _, err := c.Shot(t.Context(), capture.Options{Region: image.Rect(600, 0, 700, 10)}); !errors.Is(err, desktop.ErrOutside) {
		t.Errorf("region that leaves the screen: %v", err)
	}
}

// Halving is the mean of four pixels; a plain area stays exactly as it was at
// any scale.
func TestShrink(t *testing.T) {
	img := image.NewRGBA(image.Rect(0, 0, 4, 2))
	for i, v := range []byte{0, 100, 10, 20, 40, 60, 30, 41} {
		copy(img.Pix[4*i:], []byte{v, v, 255, 255})
	}
	got := decode(t, shot(t, camera(t, newScreen(img)), capture.Options{MaxWidth: 2}))
	for x, want := range []byte{50, 25} {
		if c := got.RGBAAt(x, 0); c != (color.RGBA{want, want, 255, 255}) {
			t.Errorf("pixel %d is %v, want %d", x, c, want)
		}
	}
	plain := image.NewRGBA(image.Rect(0, 0, 1366, 77))
	for i := 0; i < len(plain.Pix); i += 4 {
		copy(plain.Pix[i:], []byte{255, 127, 1, 255})
	}
	c := camera(t, newScreen(plain))
	for _, w := range []int{1, 3, 640, 1024, 1365} {
		got := decode(t, shot(t, c, capture.Options{MaxWidth: w}))
		for i := 0; i < len(got.Pix); i += 4 {
			if [4]byte(got.Pix[i:i+4]) != [4]byte{255, 127, 1, 255} {
				t.Fatalf("width %d: pixel %d is %v", w, i/4, got.Pix[i:i+4])
			}
		}
	}
}

func TestCursor(t *testing.T) {
	s := newScreen(few(40, 20, 1))
	arrow := image.NewRGBA(image.Rect(0, 0, 2, 2))
	arrow.SetRGBA(0, 0, color.RGBA{255, 255, 255, 255})
	s.cursor = desktop.Cursor{Image: arrow, Hotspot: image.Pt(1, 0), Pos: image.Pt(10, 5)}
	c := camera(t, s)
	without := shot(t, c, capture.Options{})
	with := shot(t, c, capture.Options{Cursor: true})
	if got := decode(t, with); got.RGBAAt(9, 5) != (color.RGBA{255, 255, 255, 255}) || got.RGBAAt(10, 5) != s.img.RGBAAt(10, 5) {
		t.Errorf("cursor: %v %v", got.RGBAAt(9, 5), got.RGBAAt(10, 5))
	}
	if with.ETag == without.ETag {
		t.Error("a picture with and one without cursor have the same ETag")
	}
	if got := decode(t, shot(t, c, capture.Options{Cursor: true, Pointer: &image.Point{30, 7}})); got.RGBAAt(29, 7) != (color.RGBA{255, 255, 255, 255}) {
		t.Error("the cursor is not where the caller says")
	}
	if got := decode(t, shot(t, c, capture.Options{Cursor: true, Region: image.Rect(5, 5, 15, 10)})); got.RGBAAt(4, 0) != (color.RGBA{255, 255, 255, 255}) {
		t.Error("the cursor is not in its region")
	}
	if s.img.RGBAAt(9, 5) == (color.RGBA{255, 255, 255, 255}) {
		t.Error("the cursor was drawn into the frame")
	}
}

func TestETag(t *testing.T) {
	s := newScreen(desk(64, 40))
	c := camera(t, s)
	a, b := shot(t, c, capture.Options{}), shot(t, c, capture.Options{})
	if a.ETag != b.ETag || &a.Bytes[0] != &b.Bytes[0] {
		t.Error("an unchanged screen was encoded twice")
	}
	s.paint(image.Rect(0, 0, 1, 1), color.RGBA{1, 2, 3, 255})
	if d := shot(t, c, capture.Options{}); d.ETag == a.ETag || d.Seq != a.Seq+1 {
		t.Error("a changed screen has the same ETag")
	}
	if o := shot(t, camera(t, s), capture.Options{}); o.ETag == shot(t, c, capture.Options{}).ETag {
		t.Error("two cameras share ETags")
	}
	if a.ETag[0] != '"' {
		t.Errorf("ETag %s is not quoted", a.ETag)
	}
}

func TestConcurrentShots(t *testing.T) {
	s := newScreen(desk(320, 200))
	c := camera(t, s)
	var all sync.WaitGroup
	var mu sync.Mutex
	first := map[uint64]*byte{}
	for i := range 60 {
		all.Go(func() {
			if i%20 == 0 {
				s.paint(image.Rect(i, 0, i+1, 1), color.RGBA{9, 9, 9, 255})
			}
			r, err := c.Shot(t.Context(), capture.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if p, ok := first[r.Seq]; ok && p != &r.Bytes[0] {
				t.Errorf("frame %d was encoded twice", r.Seq)
			}
			first[r.Seq] = &r.Bytes[0]
		})
	}
	all.Wait()
}

func TestOptionsRefused(t *testing.T) {
	c := camera(t, newScreen(few(2, 2, 1)))
	for name, o := range map[string]capture.Options{
		"format": {Format: "webp"}, "quality": {Quality: 101}, "negative quality": {Quality: -1}, "negative width": {MaxWidth: -1},
	} {
		if _, err := c.Shot(t.Context(), o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := camera(t, struct{ desktop.Source }{newScreen(few(2, 2, 1))}).Shot(t.Context(), capture.Options{NotBefore: time.Now()}); !errors.Is(err, desktop.ErrUnsupported) {
		t.Errorf("NotBefore of a source that cannot: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := c.Shot(ctx, capture.Options{}); err == nil && r == nil {
		t.Error("neither result nor error")
	}
}

func TestJPEG(t *testing.T) {
	img := desk(320, 200)
	c := camera(t, newScreen(img))
	high := shot(t, c, capture.Options{Format: capture.JPEG, Quality: 95})
	low := shot(t, c, capture.Options{Format: capture.JPEG, Quality: 20})
	if high.MIME != "image/jpeg" || len(low.Bytes) >= len(high.Bytes) {
		t.Errorf("%s: quality 95 takes %d bytes, 20 takes %d", high.MIME, len(high.Bytes), len(low.Bytes))
	}
	got, far := decode(t, high), 0
	for i := range got.Pix {
		if d := int(got.Pix[i]) - int(img.Pix[i]); d > 60 || d < -60 {
			far++
		}
	}
	if far > len(got.Pix)/50 {
		t.Errorf("%d of %d values are far off", far, len(got.Pix))
	}
}
