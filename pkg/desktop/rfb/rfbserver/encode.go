package rfbserver

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"image"
)

// Encodings and pseudo-encodings.
const (
	encRaw   = 0
	encTight = 7
	encZRLE  = 16

	encDesktopSize  = -223
	encCursor       = -239
	encExtendedKey  = -258
	encExtendedSize = -308
	encFence        = -312
	encContinuous   = -313
)

// maxWide is how wide a rectangle is at most; Tight ends at 2048.
const maxWide = 1024

// encoder makes rectangles of pixels. It belongs to one goroutine: its streams go
// on over all rectangles of a connection.
type encoder struct {
	format  format
	kind    int32
	streams [4]stream // of Tight; ZRLE has the first of its own
	zrle    stream
	scratch []byte
}

// stream is one zlib stream.
type stream struct {
	out bytes.Buffer
	w   *zlib.Writer
}

// squeeze compresses p so that all of it can be read back now.
func (s *stream) squeeze(p []byte) ([]byte, error) {
	if s.w == nil {
		var err error
		if s.w, err = zlib.NewWriterLevel(&s.out, zlib.BestSpeed); err != nil {
			return nil, fmt.Errorf("compress pixels: %w", err)
		}
	}
	s.out.Reset()
	if _, err := s.w.Write(p); err != nil {
		return nil, fmt.Errorf("compress pixels: %w", err)
	}
	if err := s.w.Flush(); err != nil {
		return nil, fmt.Errorf("compress pixels: %w", err)
	}
	return s.out.Bytes(), nil
}

func header(out []byte, r image.Rectangle, encoding int32) []byte {
	for _, v := range []int{r.Min.X, r.Min.Y, r.Dx(), r.Dy()} {
		out = binary.BigEndian.AppendUint16(out, uint16(v))
	}
	return binary.BigEndian.AppendUint32(out, uint32(encoding))
}

// rect adds one rectangle of pixels.
func (e *encoder) rect(out []byte, img *image.RGBA, r image.Rectangle) ([]byte, error) {
	out = header(out, r, e.kind)
	switch e.kind {
	case encZRLE:
		return e.appendZRLE(out, img, r)
	case encTight:
		return e.appendTight(out, img, r)
	}
	return e.format.append(out, img, r), nil
}

// palette is the colours of a rectangle, in the order in which they come.
type palette struct {
	colours [256]uint32
	n       int
	slots   [1024]uint16 // by hash: index + 1; 0: free
}

func colour(pix []byte) uint32 {
	return uint32(pix[0]) | uint32(pix[1])<<8 | uint32(pix[2])<<16
}

// slot is where a colour is or would be.
func (p *palette) slot(c uint32) int {
	at := c * 2654435761 >> 22
	for p.slots[at] != 0 && p.colours[p.slots[at]-1] != c {
		at = (at + 1) % uint32(len(p.slots))
	}
	return int(at)
}

// index is that of a colour, -1 for one that is not there.
func (p *palette) index(c uint32) int { return int(p.slots[p.slot(c)]) - 1 }

func (p *palette) rgb(i int) []byte {
	c := p.colours[i]
	return []byte{byte(c), byte(c >> 8), byte(c >> 16)}
}

// find fills an empty palette; false when there are more colours than most.
func (p *palette) find(img *image.RGBA, r image.Rectangle, most int) bool {
	last := uint32(1 << 31) // no colour
	for y := r.Min.Y; y < r.Max.Y; y++ {
		i := img.PixOffset(r.Min.X, y)
		row := img.Pix[i : i+4*r.Dx()]
		for ; len(row) > 0; row = row[4:] {
			c := colour(row)
			if c == last {
				continue
			}
			last = c
			at := p.slot(c)
			if p.slots[at] != 0 {
				continue
			}
			if p.n == most {
				return false
			}
			p.colours[p.n] = c
			p.n++
			p.slots[at] = uint16(p.n)
		}
	}
	return true
}

// appendPacked adds the rectangle's palette indices with so many bits each; rows
// begin with a byte.
func (p *palette) appendPacked(out []byte, img *image.RGBA, r image.Rectangle, bits int) []byte {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		i := img.PixOffset(r.Min.X, y)
		row := img.Pix[i : i+4*r.Dx()]
		var acc byte
		left := 8
		for ; len(row) > 0; row = row[4:] {
			left -= bits
			acc |= byte(p.index(colour(row))) << left
			if left == 0 {
				out, acc, left = append(out, acc), 0, 8
			}
		}
		if left < 8 {
			out = append(out, acc)
		}
	}
	return out
}

const tileSide = 64

// appendZRLE adds a rectangle's length and tiles (RFC 6143, 7.7.6).
func (e *encoder) appendZRLE(out []byte, img *image.RGBA, r image.Rectangle) ([]byte, error) {
	e.scratch = e.scratch[:0]
	for y := r.Min.Y; y < r.Max.Y; y += tileSide {
		for x := r.Min.X; x < r.Max.X; x += tileSide {
			e.tile(img, image.Rect(x, y, min(x+tileSide, r.Max.X), min(y+tileSide, r.Max.Y)))
		}
	}
	data, err := e.zrle.squeeze(e.scratch)
	if err != nil {
		return nil, err
	}
	out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
	return append(out, data...), nil
}

// maxPacked is how many colours a packed tile may have.
const maxPacked = 16

func (e *encoder) tile(img *image.RGBA, t image.Rectangle) {
	var p palette
	switch {
	case !p.find(img, t, maxPacked):
		e.scratch = append(e.scratch, 0)
		for y := t.Min.Y; y < t.Max.Y; y++ {
			i := img.PixOffset(t.Min.X, y)
			for row := img.Pix[i : i+4*t.Dx()]; len(row) > 0; row = row[4:] {
				e.scratch = e.format.small(e.scratch, row)
			}
		}
	case p.n == 1:
		e.scratch = e.format.small(append(e.scratch, 1), p.rgb(0))
	default:
		e.scratch = append(e.scratch, byte(p.n))
		for i := range p.n {
			e.scratch = e.format.small(e.scratch, p.rgb(i))
		}
		bits := 4
		if p.n <= 2 {
			bits = 1
		} else if p.n <= 4 {
			bits = 2
		}
		e.scratch = p.appendPacked(e.scratch, img, t, bits)
	}
}

// Of Tight: the streams that are used for what, and the shortest data that is
// compressed, in bytes.
const (
	tightCopy    = 0
	tightMono    = 1
	tightIndexed = 2

	tightFilter  = 0x40
	tightFill    = 0x80
	tightPalette = 1
	tightShort   = 12
)

// appendTight adds a rectangle as one of Tight's: filled, with a palette, or as it
// is. JPEG, which loses, is not used.
func (e *encoder) appendTight(out []byte, img *image.RGBA, r image.Rectangle) ([]byte, error) {
	var p palette
	if !p.find(img, r, len(p.colours)) {
		e.scratch = e.scratch[:0]
		for y := r.Min.Y; y < r.Max.Y; y++ {
			i := img.PixOffset(r.Min.X, y)
			for row := img.Pix[i : i+4*r.Dx()]; len(row) > 0; row = row[4:] {
				e.scratch = e.format.tight(e.scratch, row)
			}
		}
		return e.tightData(append(out, tightCopy<<4), tightCopy)
	}
	if p.n == 1 {
		return e.format.tight(append(out, tightFill), p.rgb(0)), nil
	}
	id, bits := tightIndexed, 8
	if p.n == 2 {
		id, bits = tightMono, 1
	}
	out = append(out, byte(id<<4|tightFilter), tightPalette, byte(p.n-1))
	for i := range p.n {
		out = e.format.tight(out, p.rgb(i))
	}
	e.scratch = p.appendPacked(e.scratch[:0], img, r, bits)
	return e.tightData(out, id)
}

// tightData adds what lies in scratch, compressed if that is worth it, after its
// length in 7 bits a byte, lowest first.
func (e *encoder) tightData(out []byte, id int) ([]byte, error) {
	if len(e.scratch) < tightShort {
		return append(out, e.scratch...), nil
	}
	data, err := e.streams[id].squeeze(e.scratch)
	if err != nil {
		return nil, err
	}
	n := len(data)
	out = append(out, byte(n&0x7f))
	if n > 0x7f {
		out[len(out)-1] |= 0x80
		out = append(out, byte(n>>7&0x7f))
		if n > 0x3fff {
			out[len(out)-1] |= 0x80
			out = append(out, byte(n>>14))
		}
	}
	return append(out, data...), nil
}
