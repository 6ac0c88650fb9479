package capture_test

import (
	"context"
	"image"
	"image/color"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// screen is a Source in memory.
type screen struct {
	mu      sync.Mutex
	img     *image.RGBA
	seq     uint64
	cursor  desktop.Cursor
	changed chan struct{}
	damage  map[uint64]image.Rectangle
}

var (
	_ desktop.Source    = (*screen)(nil)
	_ desktop.Confirmer = (*screen)(nil)
	_ desktop.Damager   = (*screen)(nil)
)

func newScreen(img *image.RGBA) *screen {
	return &screen{img: img, seq: 1, changed: make(chan struct{}), damage: map[uint64]image.Rectangle{}}
}

func (s *screen) paint(r image.Rectangle, c color.RGBA) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.img = &image.RGBA{Pix: append([]byte(nil), s.img.Pix...), Stride: s.img.Stride, Rect: s.img.Rect}
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			s.img.SetRGBA(x, y, c)
		}
	}
	s.seq++
	s.damage[s.seq] = r
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *screen) frame() *desktop.Frame {
	return &desktop.Frame{Image: s.img, Seq: s.seq, At: time.Now(), Cursor: s.cursor}
}

func (s *screen) Frame(context.Context) (*desktop.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frame(), nil
}

func (s *screen) FrameAfter(ctx context.Context, _ time.Time) (*desktop.Frame, error) {
	return s.Frame(ctx)
}

func (s *screen) Next(ctx context.Context, after uint64) (*desktop.Frame, error) {
	for {
		s.mu.Lock()
		f, changed := s.frame(), s.changed
		s.mu.Unlock()
		if f.Seq > after {
			return f, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *screen) Damage(since uint64) (rects []image.Rectangle, seq uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := since + 1; n <= s.seq; n++ {
		r, ok := s.damage[n]
		if !ok {
			return nil, s.seq, false
		}
		rects = append(rects, r)
	}
	return rects, s.seq, true
}

// desk is a picture like a desktop's: a gradient, a panel, windows with text.
func desk(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	r := rand.New(rand.NewPCG(1, 2))
	for y := range h {
		for x := range w {
			img.SetRGBA(x, y, color.RGBA{byte(y * 255 / h), 90, byte(x * 255 / w), 255})
		}
	}
	window := image.Rect(w/10, h/10, w*8/10, h*9/10)
	for y := window.Min.Y; y < window.Max.Y; y++ {
		for x := window.Min.X; x < window.Max.X; x++ {
			img.SetRGBA(x, y, color.RGBA{250, 250, 250, 255})
		}
	}
	for y := window.Min.Y + 4; y+12 < window.Max.Y; y += 16 {
		for x := window.Min.X + 4; x+8 < window.Max.X; x += 8 {
			if r.IntN(6) == 0 {
				continue
			}
			for range 20 { // a glyph, antialiased
				v := byte(r.IntN(250))
				img.SetRGBA(x+r.IntN(7), y+r.IntN(11), color.RGBA{v, v, v, 255})
			}
		}
	}
	return img
}
