package rfb

import (
	"bytes"
	"encoding/binary"
	"image"
)

// screen is the picture that a decoder builds. Only the decoder touches it;
// claim asks the owner for pixels that may be written.
type screen struct {
	img     *image.RGBA
	owned   bool // img may be written during this update
	claim   func(img *image.RGBA) *image.RGBA
	missing *cover            // what no rectangle has shown since the size was set; nil: nothing
	damage  []image.Rectangle // changed by this update
	resized bool              // by this update
}

func (s *screen) bounds() image.Rectangle { return s.img.Rect }

// resize starts an opaque black picture of which nothing is known yet.
func (s *screen) resize(w, h int) {
	s.img = newOpaque(w, h)
	s.owned, s.resized = true, true
	s.missing = newCover(w, h)
	s.damage = append(s.damage[:0], s.img.Rect)
}

// begin forgets what the last update did.
func (s *screen) begin() {
	s.owned, s.resized = false, false
	s.damage = s.damage[:0]
}

// blit writes rows of RGBA pixels, packed, into r, which lies on the screen.
// Rows that say nothing new change nothing.
func (s *screen) blit(r image.Rectangle, pix []byte) {
	stride := 4 * r.Dx()
	first, last := -1, -1
	for y := range r.Dy() {
		row := pix[y*stride : (y+1)*stride]
		at := s.img.PixOffset(r.Min.X, r.Min.Y+y)
		if bytes.Equal(s.img.Pix[at:at+stride], row) {
			continue
		}
		if !s.owned {
			s.img, s.owned = s.claim(s.img), true
		}
		copy(s.img.Pix[at:at+stride], row)
		if first < 0 {
			first = y
		}
		last = y
	}
	if first >= 0 {
		s.hit(image.Rect(r.Min.X, r.Min.Y+first, r.Max.X, r.Min.Y+last+1))
	}
	if s.missing != nil && s.missing.show(r) {
		s.missing = nil
	}
}

// hit records damage; beyond a few rectangles their union is kept.
func (s *screen) hit(r image.Rectangle) {
	const most = 32
	if n := len(s.damage); n > 0 {
		prev := &s.damage[n-1]
		if r.In(*prev) {
			return
		}
		if prev.Min.X == r.Min.X && prev.Max.X == r.Max.X && prev.Max.Y == r.Min.Y {
			prev.Max.Y = r.Max.Y
			return
		}
	}
	if len(s.damage) < most {
		s.damage = append(s.damage, r)
		return
	}
	for _, d := range s.damage {
		r = r.Union(d)
	}
	s.damage = append(s.damage[:0], r)
}

func newOpaque(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := 3; i < len(img.Pix); i += 4 {
		img.Pix[i] = 0xff
	}
	return img
}

// bgrxToRGBA converts 32-bit pixels of the wire in place.
func bgrxToRGBA(p []byte) {
	for len(p) >= 4 {
		v := binary.LittleEndian.Uint32(p)
		binary.LittleEndian.PutUint32(p, v>>16&0xff|v&0xff00|v<<16&0xff0000|0xff000000)
		p = p[4:]
	}
}

// cover knows which pixels have been shown.
type cover struct {
	seen  []bool
	width int
	left  int
}

func newCover(w, h int) *cover {
	return &cover{seen: make([]bool, w*h), width: w, left: w * h}
}

// show marks r and tells whether all pixels have now been shown.
func (c *cover) show(r image.Rectangle) bool {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		row := c.seen[y*c.width+r.Min.X : y*c.width+r.Max.X]
		for x, seen := range row {
			if !seen {
				row[x] = true
				c.left--
			}
		}
	}
	return c.left == 0
}
