package rfb

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"image"
	"io"
)

// maxCutText bounds the clipboard text that a server may send, in bytes.
const maxCutText = 16 << 20

// limits bound what a server can make us allocate.
type limits struct {
	side   int // pixels
	pixels int
}

func (l limits) check(stage string, w, h int) error {
	if w <= 0 || h <= 0 || w > l.side || h > l.side || w*h > l.pixels {
		return refuse(stage, "screen of %dx%d pixels; at most %d a side and %d in all", w, h, l.side, l.pixels)
	}
	return nil
}

// decoder reads the server's messages.
type decoder struct {
	r      *bufio.Reader
	limits limits
	qemu   bool // the server is QEMU, whose alpha cursor is BGRA
	scr    screen
	cursor cursor
	zrle   zrle

	extKeys  bool // extended key events are understood
	relative bool // the guest has no absolute pointer (yet)

	buf []byte // pixels of one rectangle or row
}

// update says what one framebuffer update was.
type update struct {
	pixels bool // it had a rectangle of pixels
	probe  bool // one of them held the pixel (0,0)
	cursor bool // it changed the cursor
}

// message reads one message. For a framebuffer update ok is true.
func (d *decoder) message() (u update, ok bool, err error) {
	kind, err := d.r.ReadByte()
	if err != nil {
		return u, false, fmt.Errorf("read message: %w", err)
	}
	switch kind {
	case msgFramebufferUpdate:
		u, err = d.update()
		return u, err == nil, err
	case msgColourMap:
		var head [5]byte
		if _, err := io.ReadFull(d.r, head[:]); err != nil {
			return u, false, fmt.Errorf("read colour map: %w", err)
		}
		return u, false, d.skip(6 * int(binary.BigEndian.Uint16(head[3:])))
	case msgBell:
		return u, false, nil
	case msgServerCutText:
		var head [7]byte
		if _, err := io.ReadFull(d.r, head[:]); err != nil {
			return u, false, fmt.Errorf("read cut text: %w", err)
		}
		n := binary.BigEndian.Uint32(head[3:])
		if n > maxCutText {
			return u, false, refuse("cut text", "%d bytes; at most %d", n, maxCutText)
		}
		return u, false, d.skip(int(n))
	}
	return u, false, refuse("message", "unknown type %d", kind)
}

func (d *decoder) update() (u update, err error) {
	var head [3]byte
	if _, err := io.ReadFull(d.r, head[:]); err != nil {
		return u, fmt.Errorf("read update: %w", err)
	}
	n := int(binary.BigEndian.Uint16(head[1:]))
	d.scr.begin()
	for range n {
		var h [12]byte
		if _, err := io.ReadFull(d.r, h[:]); err != nil {
			return u, fmt.Errorf("read rectangle: %w", err)
		}
		x, y := int(binary.BigEndian.Uint16(h[0:])), int(binary.BigEndian.Uint16(h[2:]))
		w, ht := int(binary.BigEndian.Uint16(h[4:])), int(binary.BigEndian.Uint16(h[6:]))
		enc := int32(binary.BigEndian.Uint32(h[8:]))
		if enc == encLastRect {
			return u, nil
		}
		r := image.Rect(x, y, x+w, y+ht)
		if enc >= 0 {
			err = d.pixels(r, enc)
			u.pixels = true
			u.probe = u.probe || image.Pt(0, 0).In(r)
		} else {
			err = d.pseudo(r, enc)
			u.cursor = u.cursor || enc == encRichCursor || enc == encAlphaCursor || enc == encPointerPos
		}
		if err != nil {
			return u, err
		}
	}
	return u, nil
}

// pixels decodes a rectangle of the screen.
func (d *decoder) pixels(r image.Rectangle, enc int32) error {
	if !within(r, d.scr.bounds()) {
		return refuse("rectangle", "%v outside the screen %v", r, d.scr.bounds())
	}
	switch enc {
	case encRaw:
		return d.raw(r)
	case encCopyRect:
		return d.copyRect(r)
	case encZRLE:
		return d.readZRLE(r)
	}
	return refuse("rectangle", "encoding %d was not asked for", enc)
}

// within is r.In(s) that does not make an exception of empty rectangles.
func within(r, s image.Rectangle) bool {
	return r.Min.X >= s.Min.X && r.Min.Y >= s.Min.Y && r.Max.X <= s.Max.X && r.Max.Y <= s.Max.Y
}

// raw decodes a band of rows at a time, so that memory stays small.
func (d *decoder) raw(r image.Rectangle) error {
	if r.Empty() {
		return nil
	}
	band := max(1, (64<<10)/(4*r.Dx()))
	for y := r.Min.Y; y < r.Max.Y; y += band {
		part := image.Rect(r.Min.X, y, r.Max.X, min(y+band, r.Max.Y))
		p := d.scratch(4 * part.Dx() * part.Dy())
		if _, err := io.ReadFull(d.r, p); err != nil {
			return fmt.Errorf("read raw pixels: %w", err)
		}
		bgrxToRGBA(p)
		d.scr.blit(part, p)
	}
	return nil
}

func (d *decoder) copyRect(r image.Rectangle) error {
	var h [4]byte
	if _, err := io.ReadFull(d.r, h[:]); err != nil {
		return fmt.Errorf("read copyrect: %w", err)
	}
	at := image.Pt(int(binary.BigEndian.Uint16(h[0:])), int(binary.BigEndian.Uint16(h[2:])))
	from := image.Rectangle{Min: at, Max: at.Add(r.Size())}
	if !within(from, d.scr.bounds()) {
		return refuse("copyrect", "source %v outside the screen %v", from, d.scr.bounds())
	}
	stride := 4 * r.Dx()
	p := d.scratch(stride * r.Dy())
	for y := range r.Dy() {
		i := d.scr.img.PixOffset(from.Min.X, from.Min.Y+y)
		copy(p[y*stride:], d.scr.img.Pix[i:i+stride])
	}
	d.scr.blit(r, p)
	return nil
}

// pseudo handles a pseudo-rectangle.
func (d *decoder) pseudo(r image.Rectangle, enc int32) error {
	switch enc {
	case encDesktopSize:
		if err := d.limits.check("desktop size", r.Dx(), r.Dy()); err != nil {
			return err
		}
		d.scr.resize(r.Dx(), r.Dy())
		return nil
	case encExtSize:
		return d.extendedSize(r)
	case encRichCursor:
		return d.richCursor(r)
	case encAlphaCursor:
		return d.alphaCursor(r)
	case encPointerPos:
		d.cursor.pos, d.cursor.placed = r.Min, true
		return nil
	case encPointerType:
		d.relative = r.Min.X == 0
		return nil
	case encExtKeys:
		d.extKeys = true
		return nil
	case encLEDState:
		return d.skip(1)
	}
	return refuse("rectangle", "pseudo-encoding %d was not asked for", enc)
}

// extendedSize reads a screen layout; a refusal of a request (y != 0) changes
// nothing.
func (d *decoder) extendedSize(r image.Rectangle) error {
	var h [4]byte
	if _, err := io.ReadFull(d.r, h[:]); err != nil {
		return fmt.Errorf("read desktop size: %w", err)
	}
	if err := d.skip(16 * int(h[0])); err != nil {
		return err
	}
	if r.Min.Y != 0 {
		return nil
	}
	if err := d.limits.check("desktop size", r.Dx(), r.Dy()); err != nil {
		return err
	}
	if r.Size() != d.scr.bounds().Size() {
		d.scr.resize(r.Dx(), r.Dy())
	}
	return nil
}

func (d *decoder) skip(n int) error {
	if _, err := d.r.Discard(n); err != nil {
		return fmt.Errorf("skip %d bytes: %w", n, err)
	}
	return nil
}

// scratch returns n bytes that the next call overwrites.
func (d *decoder) scratch(n int) []byte {
	if cap(d.buf) < n {
		d.buf = make([]byte, n)
	}
	return d.buf[:n]
}
