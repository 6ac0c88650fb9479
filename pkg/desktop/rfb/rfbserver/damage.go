package rfbserver

import (
	"bytes"
	"image"
	"slices"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// changed finds the rectangles in which two frames of one size differ, among those
// that are named; nil: anywhere.
func changed(was, is *image.RGBA, where []image.Rectangle) []image.Rectangle {
	var out []image.Rectangle
	if where == nil {
		where = []image.Rectangle{is.Rect}
	}
	for y := 0; y < is.Rect.Max.Y; y += tileSide {
		var run image.Rectangle
		for x := 0; x < is.Rect.Max.X; x += tileSide {
			t := image.Rect(x, y, x+tileSide, y+tileSide).Intersect(is.Rect)
			if !touched(t, where) || equal(was, is, t) {
				continue
			}
			if !run.Empty() && run.Max.X == t.Min.X && run.Dx() < maxWide {
				run.Max.X = t.Max.X
				continue
			}
			if !run.Empty() {
				out = append(out, run)
			}
			run = t
		}
		if !run.Empty() {
			out = append(out, run)
		}
	}
	return out
}

func touched(t image.Rectangle, where []image.Rectangle) bool {
	return slices.ContainsFunc(where, t.Overlaps)
}

func equal(a, b *image.RGBA, r image.Rectangle) bool {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		i, j := a.PixOffset(r.Min.X, y), b.PixOffset(r.Min.X, y)
		if !bytes.Equal(a.Pix[i:i+4*r.Dx()], b.Pix[j:j+4*r.Dx()]) {
			return false
		}
	}
	return true
}

// whole is a rectangle in parts of which each can be encoded.
func whole(r image.Rectangle) []image.Rectangle {
	var out []image.Rectangle
	for y := r.Min.Y; y < r.Max.Y; y += tileSide {
		for x := r.Min.X; x < r.Max.X; x += maxWide {
			out = append(out, image.Rect(x, y, x+maxWide, y+tileSide).Intersect(r))
		}
	}
	return out
}

// since is where a frame may differ from an older one; nil: anywhere.
func since(src desktop.Source, seq uint64) []image.Rectangle {
	d, ok := src.(desktop.Damager)
	if !ok {
		return nil
	}
	rects, _, known := d.Damage(seq)
	if !known {
		return nil
	}
	if rects == nil {
		rects = []image.Rectangle{}
	}
	return rects
}

// sameCursor says whether two cursors look alike.
func sameCursor(a, b desktop.Cursor) bool {
	if a.Image == nil || b.Image == nil {
		return a.Image == b.Image
	}
	return a.Hotspot == b.Hotspot && a.Image.Rect == b.Image.Rect && bytes.Equal(a.Image.Pix, b.Image.Pix)
}

// maxCursor bounds a cursor's side, in pixels.
const maxCursor = 256

// appendCursor adds a cursor as pixels and a mask of one bit each (RFC 6143, 7.8.1);
// no image is an empty one.
func (e *encoder) appendCursor(out []byte, c desktop.Cursor) []byte {
	if c.Image == nil || c.Image.Rect.Dx() > maxCursor || c.Image.Rect.Dy() > maxCursor {
		return header(out, image.Rectangle{}, encCursor)
	}
	size := c.Image.Rect.Size()
	out = header(out, image.Rectangle{Min: c.Hotspot, Max: c.Hotspot.Add(size)}, encCursor)
	out = e.format.append(out, c.Image, c.Image.Rect)
	for y := range size.Y {
		var acc byte
		for x := range size.X {
			if c.Image.Pix[c.Image.PixOffset(c.Image.Rect.Min.X+x, c.Image.Rect.Min.Y+y)+3] >= 128 {
				acc |= 0x80 >> (x % 8)
			}
			if x%8 == 7 || x == size.X-1 {
				out, acc = append(out, acc), 0
			}
		}
	}
	return out
}
