package rfb

import (
	"encoding/binary"
	"fmt"
	"image"
	"io"
)

// maxCursor bounds a cursor's side, in pixels.
const maxCursor = 512

// cursor is the pointer's picture as the server drew it last.
type cursor struct {
	img    *image.RGBA
	hot    image.Point
	pos    image.Point
	placed bool // pos came from the server
}

func (d *decoder) cursorSize(r image.Rectangle) error {
	if r.Dx() > maxCursor || r.Dy() > maxCursor {
		return refuse("cursor", "%dx%d pixels; at most %d a side", r.Dx(), r.Dy(), maxCursor)
	}
	return nil
}

// richCursor reads pixels and a mask of one bit a pixel (RFC 6143, 7.8.1).
func (d *decoder) richCursor(r image.Rectangle) error {
	if err := d.cursorSize(r); err != nil {
		return err
	}
	w, h := r.Dx(), r.Dy()
	maskStride := (w + 7) / 8
	p := make([]byte, 4*w*h+maskStride*h)
	if _, err := io.ReadFull(d.r, p); err != nil {
		return fmt.Errorf("read cursor: %w", err)
	}
	pix, mask := p[:4*w*h], p[4*w*h:]
	bgrxToRGBA(pix)
	for y := range h {
		for x := range w {
			if mask[y*maskStride+x/8]&(0x80>>(x%8)) == 0 {
				clear(pix[4*(y*w+x):][:4])
			}
		}
	}
	d.setCursor(r, pix)
	return nil
}

// alphaCursor reads pixels with premultiplied alpha: red first, but blue first
// from QEMU, which sends its own words as they are.
func (d *decoder) alphaCursor(r image.Rectangle) error {
	if err := d.cursorSize(r); err != nil {
		return err
	}
	p := make([]byte, 4+4*r.Dx()*r.Dy())
	if _, err := io.ReadFull(d.r, p); err != nil {
		return fmt.Errorf("read alpha cursor: %w", err)
	}
	if enc := int32(binary.BigEndian.Uint32(p)); enc != encRaw {
		return refuse("alpha cursor", "encoding %d; only raw is understood", enc)
	}
	pix := p[4:]
	for i := 0; i < len(pix); i += 4 {
		if d.qemu {
			pix[i], pix[i+2] = pix[i+2], pix[i]
		}
		a := pix[i+3]
		pix[i], pix[i+1], pix[i+2] = min(pix[i], a), min(pix[i+1], a), min(pix[i+2], a)
	}
	d.setCursor(r, pix)
	return nil
}

func (d *decoder) setCursor(r image.Rectangle, pix []byte) {
	d.cursor.img, d.cursor.hot = nil, image.Point{}
	if r.Empty() {
		return
	}
	d.cursor.img = &image.RGBA{Pix: pix, Stride: 4 * r.Dx(), Rect: image.Rect(0, 0, r.Dx(), r.Dy())}
	d.cursor.hot = image.Pt(min(r.Min.X, r.Dx()-1), min(r.Min.Y, r.Dy()-1))
}
