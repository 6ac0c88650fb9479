package rfb

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"image"
	"io"
)

const tileSide = 64

// zrle holds the one zlib stream of a connection (RFC 6143, 7.7.6). in keeps
// compressed bytes that were not needed yet.
type zrle struct {
	in     bytes.Buffer
	out    io.ReadCloser
	packed [3 * tileSide * tileSide]byte
	tile   [4 * tileSide * tileSide]byte
}

func (d *decoder) readZRLE(r image.Rectangle) error {
	var h [4]byte
	if _, err := io.ReadFull(d.r, h[:]); err != nil {
		return fmt.Errorf("read zrle: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(h[:]))
	// Deflate may grow what it cannot shrink by 5 bytes a block.
	if most := int64(6*r.Dx()*r.Dy() + 64<<10); n > most {
		return refuse("zrle", "%d bytes for %v; at most %d", n, r, most)
	}
	z := &d.zrle
	if _, err := io.CopyN(&z.in, d.r, n); err != nil {
		return fmt.Errorf("read zrle: %w", err)
	}
	if z.in.Len() > 64<<20 {
		return refuse("zrle", "%d unused bytes", z.in.Len())
	}
	if z.out == nil {
		out, err := zlib.NewReader(&z.in)
		if err != nil {
			return refuse("zrle", "zlib header: %v", err)
		}
		z.out = out
	}
	for y := r.Min.Y; y < r.Max.Y; y += tileSide {
		for x := r.Min.X; x < r.Max.X; x += tileSide {
			t := image.Rect(x, y, min(x+tileSide, r.Max.X), min(y+tileSide, r.Max.Y))
			pix := z.tile[:4*t.Dx()*t.Dy()]
			if err := z.readTile(pix, t.Dx()); err != nil {
				return err
			}
			d.scr.blit(t, pix)
		}
	}
	return nil
}

// readTile decodes one tile, width pixels wide, into RGBA.
func (z *zrle) readTile(pix []byte, width int) error {
	sub, err := z.byte()
	if err != nil {
		return err
	}
	switch {
	case sub == 0:
		return z.rawTile(pix)
	case sub == 1:
		var c [1][4]byte
		if err := z.palette(c[:]); err != nil {
			return err
		}
		for i := 0; i < len(pix); i += 4 {
			copy(pix[i:], c[0][:])
		}
		return nil
	case sub <= 16:
		return z.packedTile(pix, width, int(sub))
	case sub == 128:
		return z.plainRLE(pix)
	case sub >= 130:
		return z.paletteRLE(pix, int(sub)-128)
	}
	return refuse("zrle", "unknown tile encoding %d", sub)
}

func (z *zrle) rawTile(pix []byte) error {
	p := z.packed[:len(pix)/4*3]
	if err := z.full(p); err != nil {
		return err
	}
	for i := 0; i < len(pix); i += 4 {
		s := p[i/4*3:]
		pix[i], pix[i+1], pix[i+2], pix[i+3] = s[2], s[1], s[0], 0xff
	}
	return nil
}

func (z *zrle) packedTile(pix []byte, width, colours int) error {
	var pal [16][4]byte
	if err := z.palette(pal[:colours]); err != nil {
		return err
	}
	bits := 4
	if colours == 2 {
		bits = 1
	} else if colours <= 4 {
		bits = 2
	}
	stride := (width*bits + 7) / 8
	rows := len(pix) / 4 / width
	p := z.packed[:stride*rows]
	if err := z.full(p); err != nil {
		return err
	}
	for y := range rows {
		for x := range width {
			at := x * bits
			i := int(p[y*stride+at/8]>>(8-bits-at%8)) & (1<<bits - 1)
			if i >= colours {
				return refuse("zrle", "colour %d of %d", i, colours)
			}
			copy(pix[4*(y*width+x):], pal[i][:])
		}
	}
	return nil
}

func (z *zrle) plainRLE(pix []byte) error {
	for i := 0; i < len(pix); {
		var c [1][4]byte
		if err := z.palette(c[:]); err != nil {
			return err
		}
		n, err := z.run()
		if err != nil {
			return err
		}
		if i, err = fill(pix, i, n, c[0]); err != nil {
			return err
		}
	}
	return nil
}

func (z *zrle) paletteRLE(pix []byte, colours int) error {
	var pal [127][4]byte
	if err := z.palette(pal[:colours]); err != nil {
		return err
	}
	for i := 0; i < len(pix); {
		index, err := z.byte()
		if err != nil {
			return err
		}
		n := 1
		if index&0x80 != 0 {
			if n, err = z.run(); err != nil {
				return err
			}
		}
		if int(index&0x7f) >= colours {
			return refuse("zrle", "colour %d of %d", index&0x7f, colours)
		}
		if i, err = fill(pix, i, n, pal[index&0x7f]); err != nil {
			return err
		}
	}
	return nil
}

// fill writes n pixels from byte i on and returns where it stopped.
func fill(pix []byte, i, n int, c [4]byte) (int, error) {
	if n > (len(pix)-i)/4 {
		return 0, refuse("zrle", "run of %d pixels leaves its tile", n)
	}
	for range n {
		copy(pix[i:], c[:])
		i += 4
	}
	return i, nil
}

// run reads a run length: 1 plus bytes up to and with the first below 255.
func (z *zrle) run() (int, error) {
	n := 1
	for {
		b, err := z.byte()
		if err != nil {
			return 0, err
		}
		n += int(b)
		if b != 255 {
			return n, nil
		}
		if n > tileSide*tileSide {
			return 0, refuse("zrle", "run of more than %d pixels", n)
		}
	}
}

// palette reads compressed pixels (blue, green, red).
func (z *zrle) palette(pal [][4]byte) error {
	p := z.packed[:3*len(pal)]
	if err := z.full(p); err != nil {
		return err
	}
	for i := range pal {
		pal[i] = [4]byte{p[3*i+2], p[3*i+1], p[3*i], 0xff}
	}
	return nil
}

func (z *zrle) byte() (byte, error) {
	err := z.full(z.packed[:1])
	return z.packed[0], err
}

func (z *zrle) full(p []byte) error {
	if _, err := io.ReadFull(z.out, p); err != nil {
		return refuse("zrle", "zlib stream: %v", err)
	}
	return nil
}
