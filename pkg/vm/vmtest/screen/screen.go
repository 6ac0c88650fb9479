// Package screen is a synthetic display that speaks RFB, for fake machines.
package screen

import (
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"sync"
)

// Event is one event of pointer or keyboard as it came over RFB.
type Event struct {
	Kind    string // pointer, key, cut
	X, Y    int    // pointer
	Buttons uint8  // pointer: RFB's mask
	Keysym  uint32 // key
	Keycode uint32 // key: of QEMU's extended event, else 0
	Down    bool   // key
	Text    string // cut
}

// Screen is a synthetic display. Safe for concurrent use.
type Screen struct {
	mu      sync.Mutex
	img     *image.RGBA
	seq     uint64
	changed chan struct{} // closed at the next change
	events  []Event
}

// New makes a screen of so many pixels.
func New(width, height int) *Screen {
	s := &Screen{img: image.NewRGBA(image.Rect(0, 0, width, height)), changed: make(chan struct{})}
	s.Fill(s.img.Bounds(), color.RGBA{0x20, 0x40, 0x60, 0xff})
	return s
}

// Fill paints a rectangle.
func (s *Screen) Fill(r image.Rectangle, c color.Color) {
	s.mu.Lock()
	defer s.mu.Unlock()
	draw.Draw(s.img, r, image.NewUniform(c), image.Point{}, draw.Src)
	s.touch()
}

// Draw paints an image at its own place.
func (s *Screen) Draw(src image.Image) {
	s.mu.Lock()
	defer s.mu.Unlock()
	draw.Draw(s.img, src.Bounds(), src, src.Bounds().Min, draw.Src)
	s.touch()
}

// Still is a copy of what is shown now.
func (s *Screen) Still() *image.RGBA {
	s.mu.Lock()
	defer s.mu.Unlock()
	img := image.NewRGBA(s.img.Rect)
	copy(img.Pix, s.img.Pix)
	return img
}

func (s *Screen) touch() {
	s.seq++
	close(s.changed)
	s.changed = make(chan struct{})
}

// Events returns what came in so far.
func (s *Screen) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}

func (s *Screen) record(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

// look returns the pixels of r in BGRX order, their sequence number, and a
// channel that is closed at the next change.
func (s *Screen) look(r image.Rectangle) ([]byte, uint64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r = r.Intersect(s.img.Bounds())
	out := make([]byte, 0, r.Dx()*r.Dy()*bytesPerPixel)
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := s.img.Pix[s.img.PixOffset(r.Min.X, y):]
		for i := 0; i < r.Dx()*bytesPerPixel; i += bytesPerPixel { // a word each: the race detector looks at each access
			v := binary.LittleEndian.Uint32(row[i:])
			out = binary.LittleEndian.AppendUint32(out, v&0xff00|v>>16&0xff|v&0xff<<16)
		}
	}
	return out, s.seq, s.changed
}
