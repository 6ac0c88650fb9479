package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"hash/maphash"
	"image"
	"image/jpeg"
	"sync"

	"github.com/klauspost/compress/zlib"
)

// pngPool encodes opaque images as PNG, much faster than image/png: pixels of
// at most 256 colours by palette, others as 24-bit colour; each row is filtered
// against the row above ("up", or not at all with a palette), and compressed at
// the fastest level. It keeps its buffers.
type pngPool struct {
	pool sync.Pool // *pngBuffers
}

type pngBuffers struct {
	rows []byte // filtered rows
	out  bytes.Buffer
	z    *zlib.Writer
}

const pngSignature = "\x89PNG\r\n\x1a\n"

// encode returns a PNG of img, whose alpha it takes as opaque.
func (p *pngPool) encode(img *image.RGBA) ([]byte, error) {
	b, ok := p.pool.Get().(*pngBuffers)
	if !ok {
		b = &pngBuffers{}
	}
	defer p.pool.Put(b)
	b.out.Reset()
	b.out.WriteString(pngSignature)
	w, h := img.Rect.Dx(), img.Rect.Dy()
	head := binary.BigEndian.AppendUint32(nil, uint32(w))
	head = binary.BigEndian.AppendUint32(head, uint32(h))
	var pal palette
	const indexed, truecolour = 3, 2
	if pal.index(img, b.grow(h*(w+1))) {
		b.chunk("IHDR", append(head, 8, indexed, 0, 0, 0))
		b.chunk("PLTE", pal.rgb())
	} else {
		filterUp(img, b.grow(h*(3*w+1)))
		b.chunk("IHDR", append(head, 8, truecolour, 0, 0, 0))
	}
	if err := b.data(); err != nil {
		return nil, fmt.Errorf("encode png: %w", err)
	}
	b.chunk("IEND", nil)
	return bytes.Clone(b.out.Bytes()), nil
}

func (b *pngBuffers) grow(n int) []byte {
	if cap(b.rows) < n {
		b.rows = make([]byte, n)
	}
	b.rows = b.rows[:n]
	return b.rows
}

func (b *pngBuffers) chunk(name string, data []byte) {
	b.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
	start := b.out.Len()
	b.out.WriteString(name)
	b.out.Write(data)
	b.out.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(b.out.Bytes()[start:])))
}

// data writes the rows as one IDAT chunk, whose length is filled in afterwards.
func (b *pngBuffers) data() error {
	start := b.out.Len()
	b.out.WriteString("\x00\x00\x00\x00IDAT")
	if b.z == nil {
		z, err := zlib.NewWriterLevel(&b.out, zlib.BestSpeed)
		if err != nil {
			return err
		}
		b.z = z
	} else {
		b.z.Reset(&b.out)
	}
	if _, err := b.z.Write(b.rows); err != nil {
		return err
	}
	if err := b.z.Close(); err != nil {
		return err
	}
	chunk := b.out.Bytes()[start:]
	binary.BigEndian.PutUint32(chunk, uint32(len(chunk)-8))
	b.out.Write(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(chunk[4:])))
	return nil
}

// filterUp writes rows of filter 2: each byte minus the byte above it.
func filterUp(img *image.RGBA, rows []byte) {
	w := img.Rect.Dx()
	above := make([]byte, 4*w)
	for y := range img.Rect.Dy() {
		row := img.Pix[y*img.Stride : y*img.Stride+4*w]
		out := rows[:3*w+1]
		rows = rows[3*w+1:]
		out[0] = 2
		if bytes.Equal(row, above) {
			clear(out[1:])
			continue
		}
		subtract(out[1:], row, above)
		above = row
	}
}

// subtract sets out to row minus above without every fourth byte. Four bytes
// are subtracted at once: the high bits are kept from borrowing.
func subtract(out, row, above []byte) {
	const high = 0x80808080
	for len(row) >= 4 && len(above) >= 4 && len(out) >= 3 {
		a, b := binary.LittleEndian.Uint32(row), binary.LittleEndian.Uint32(above)
		d := ((a | high) - (b &^ high)) ^ ((a ^ b ^ high) & high)
		out[0], out[1], out[2] = byte(d), byte(d>>8), byte(d>>16)
		row, above, out = row[4:], above[4:], out[3:]
	}
}

// palette numbers up to 256 colours.
type palette struct {
	slots   [1024]uint32 // colour | used, by hash
	numbers [1024]byte
	colours []uint32
}

const used = 1 << 24

// index writes rows of filter 0 with colour numbers; false when img has more
// than 256 colours.
func (p *palette) index(img *image.RGBA, rows []byte) bool {
	w := img.Rect.Dx()
	last, number := uint32(0), byte(0)
	for y := range img.Rect.Dy() {
		row := img.Pix[y*img.Stride : y*img.Stride+4*w]
		rows[0] = 0
		out := rows[1 : w+1]
		rows = rows[w+1:]
		for x := range out {
			c := binary.LittleEndian.Uint32(row[4*x:])&0xffffff | used
			if c != last {
				n, ok := p.number(c)
				if !ok {
					return false
				}
				last, number = c, n
			}
			out[x] = number
		}
	}
	return true
}

func (p *palette) number(c uint32) (byte, bool) {
	i := (c * 2654435761) >> 22
	for p.slots[i] != c {
		if p.slots[i] == 0 {
			if len(p.colours) == 256 {
				return 0, false
			}
			p.slots[i], p.numbers[i] = c, byte(len(p.colours))
			p.colours = append(p.colours, c)
			break
		}
		i = (i + 1) % uint32(len(p.slots))
	}
	return p.numbers[i], true
}

func (p *palette) rgb() []byte {
	out := make([]byte, 0, 3*len(p.colours))
	for _, c := range p.colours {
		out = append(out, byte(c), byte(c>>8), byte(c>>16))
	}
	return out
}

func encodeJPEG(img *image.RGBA, quality int) ([]byte, error) {
	var out bytes.Buffer
	if err := jpeg.Encode(&out, img, &jpeg.Options{Quality: quality}); err != nil {
		return nil, fmt.Errorf("encode jpeg: %w", err)
	}
	return out.Bytes(), nil
}

// etag names the bytes of a picture.
func (c *Camera) etag(data []byte) string {
	return fmt.Sprintf("%q", fmt.Sprintf("%s-%x", c.salt, maphash.Bytes(c.seed, data)))
}
