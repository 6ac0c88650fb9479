//go:build cgo

package videotest

import (
	"bytes"
	"context"
	"image"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Source is a screen that a test draws on. Safe for concurrent use.
type Source struct {
	mu      sync.Mutex
	frame   desktop.Frame
	damage  map[uint64][]image.Rectangle // guarded by mu; by the number that they made
	changed chan struct{}                // guarded by mu; closed and replaced at each change
}

var (
	_ desktop.Source  = (*Source)(nil)
	_ desktop.Damager = (*Source)(nil)
)

// NewSource makes a source that shows an image.
func NewSource(img *image.RGBA) *Source {
	return &Source{frame: desktop.Frame{Image: img, Seq: 1}, damage: map[uint64][]image.Rectangle{}, changed: make(chan struct{})}
}

// Draw changes a copy of the image; draw says where.
func (s *Source) Draw(draw func(img *image.RGBA) image.Rectangle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.frame.Image
	img := &image.RGBA{Pix: bytes.Clone(old.Pix), Stride: old.Stride, Rect: old.Rect}
	s.show(img, draw(img))
}

// Resize shows another image.
func (s *Source) Resize(img *image.RGBA) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.show(img, img.Rect)
}

func (s *Source) show(img *image.RGBA, r image.Rectangle) {
	s.frame.Image = img
	s.frame.Seq++
	s.damage[s.frame.Seq] = []image.Rectangle{r}
	close(s.changed)
	s.changed = make(chan struct{})
}

// Point moves the cursor.
func (s *Source) Point(c desktop.Cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frame.Cursor = c
}

// Image is what is shown now.
func (s *Source) Image() *image.RGBA {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frame.Image
}

// Frame implements desktop.Source.
func (s *Source) Frame(context.Context) (*desktop.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.frame
	f.At = time.Now()
	return &f, nil
}

// Next implements desktop.Source.
func (s *Source) Next(ctx context.Context, after uint64) (*desktop.Frame, error) {
	for {
		s.mu.Lock()
		f, changed := s.frame, s.changed
		s.mu.Unlock()
		if f.Seq > after {
			f.At = time.Now()
			return &f, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Damage implements desktop.Damager.
func (s *Source) Damage(since uint64) (rects []image.Rectangle, seq uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := since + 1; i <= s.frame.Seq; i++ {
		rects = append(rects, s.damage[i]...)
	}
	return rects, s.frame.Seq, true
}
