package rfbserver

import (
	"encoding/binary"
	"image"
)

// format is how a client wants its pixels.
type format struct {
	bytes  int // a pixel: 1, 2 or 4
	big    bool
	depth  int
	max    [3]uint32 // of red, green and blue
	shift  [3]uint
	direct [3]int // byte of each colour within a pixel, where each has one; valid when plain
	plain  bool
}

// natural is the format that the server speaks unless it is told otherwise: 32
// bits, little endian, blue lowest.
func natural() format {
	f := format{bytes: 4, depth: 24, max: [3]uint32{255, 255, 255}, shift: [3]uint{16, 8, 0}}
	f.settle()
	return f
}

// settle finds out whether every colour has a byte of its own.
func (f *format) settle() {
	f.plain = f.bytes == 4
	for i := range 3 {
		f.plain = f.plain && f.max[i] == 255 && f.shift[i]%8 == 0 && f.shift[i] < 32
		f.direct[i] = int(f.shift[i] / 8)
		if f.big {
			f.direct[i] = 3 - f.direct[i]
		}
	}
}

// wire is the format as PIXEL_FORMAT.
func (f format) wire() []byte {
	b := []byte{byte(8 * f.bytes), byte(f.depth), 0, 1}
	if f.big {
		b[2] = 1
	}
	for _, m := range f.max {
		b = binary.BigEndian.AppendUint16(b, uint16(m))
	}
	for _, s := range f.shift {
		b = append(b, byte(s))
	}
	return append(b, 0, 0, 0)
}

// parseFormat reads a PIXEL_FORMAT of 16 bytes.
func parseFormat(b []byte) (message, error) {
	f := format{bytes: int(b[0]) / 8, depth: int(b[1]), big: b[2] != 0}
	if b[0] != 8 && b[0] != 16 && b[0] != 32 {
		return nil, malformed("pixels of %d bits", b[0])
	}
	if b[3] == 0 {
		return nil, malformed("a colour map: only true colours are spoken")
	}
	for i := range 3 {
		f.max[i] = uint32(binary.BigEndian.Uint16(b[4+2*i:]))
		f.shift[i] = uint(b[10+i])
		if f.shift[i] >= 32 || f.max[i] == 0 || f.max[i]&(f.max[i]+1) != 0 {
			return nil, malformed("a colour of maximum %d at bit %d", f.max[i], f.shift[i])
		}
	}
	f.settle()
	return f, nil
}

// compact says whether ZRLE's pixels leave out the byte that no colour has, which
// is the first or the last one.
func (f format) compact() bool {
	return f.plain && f.depth <= 24 && (f.unused() == 0 || f.unused() == 3)
}

func (f format) unused() int { return 6 - f.direct[0] - f.direct[1] - f.direct[2] }

// packed says whether Tight's pixels are red, green and blue in a byte each.
func (f format) packed() bool {
	return f.bytes == 4 && f.depth == 24 && f.max == [3]uint32{255, 255, 255}
}

// append adds the pixels of r.
func (f format) append(out []byte, img *image.RGBA, r image.Rectangle) []byte {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		i := img.PixOffset(r.Min.X, y)
		row := img.Pix[i : i+4*r.Dx()]
		if f.plain {
			n := len(out)
			out = append(out, row...)
			to := out[n:]
			for j := 0; j < len(row); j += 4 {
				p := (*[4]byte)(to[j:])
				rgb := [3]byte{row[j], row[j+1], row[j+2]}
				*p = [4]byte{}
				p[f.direct[0]], p[f.direct[1]], p[f.direct[2]] = rgb[0], rgb[1], rgb[2]
			}
			continue
		}
		for j := 0; j < len(row); j += 4 {
			out = f.pixel(out, row[j:])
		}
	}
	return out
}

// pixel adds one pixel.
func (f format) pixel(out, rgb []byte) []byte {
	var v uint32
	for i := range 3 {
		v |= (uint32(rgb[i])*f.max[i] + 127) / 255 << f.shift[i]
	}
	switch {
	case f.bytes == 1:
		return append(out, byte(v))
	case f.bytes == 2 && f.big:
		return binary.BigEndian.AppendUint16(out, uint16(v))
	case f.bytes == 2:
		return binary.LittleEndian.AppendUint16(out, uint16(v))
	case f.big:
		return binary.BigEndian.AppendUint32(out, v)
	}
	return binary.LittleEndian.AppendUint32(out, v)
}

// small adds one pixel as ZRLE has it: without the byte that no colour has.
func (f format) small(out, rgb []byte) []byte {
	if !f.compact() {
		return f.pixel(out, rgb)
	}
	var p [4]byte
	p[f.direct[0]], p[f.direct[1]], p[f.direct[2]] = rgb[0], rgb[1], rgb[2]
	if f.unused() == 0 {
		return append(out, p[1:]...)
	}
	return append(out, p[:3]...)
}

// tight adds one pixel as Tight has it.
func (f format) tight(out, rgb []byte) []byte {
	if !f.packed() {
		return f.pixel(out, rgb)
	}
	return append(out, rgb[:3]...)
}
