package rfbserver

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"image"
	"io"
	"math/rand/v2"
	"testing"
)

// tiny is an image of one pixel.
func tiny(rgba []byte) *image.RGBA {
	return &image.RGBA{Pix: rgba, Stride: 4, Rect: image.Rect(0, 0, 1, 1)}
}

// painted is an image of so many colours at random places.
func painted(r *rand.Rand, size image.Point, colours int) *image.RGBA {
	img := image.NewRGBA(image.Rectangle{Max: size})
	palette := make([][3]byte, colours)
	for i := range palette {
		palette[i] = [3]byte{byte(i), byte(i >> 8), byte(r.Uint32())}
	}
	for i := 0; i < len(img.Pix); i += 4 {
		c := palette[r.IntN(colours)]
		copy(img.Pix[i:], []byte{c[0], c[1], c[2], 0xff})
	}
	return img
}

// untight decodes what Tight rectangles of a connection hold. It knows the part that
// the encoder uses, and pixels of 3 bytes.
type untight struct {
	in  [4]bytes.Buffer
	out [4]io.Reader
}

func (u *untight) data(t *testing.T, b []byte, id, want int) (data, rest []byte) {
	t.Helper()
	if want < tightShort {
		return b[:want], b[want:]
	}
	n, used := 0, 0
	for used < 3 {
		c := int(b[used])
		if used < 2 {
			n |= c & 0x7f << (7 * used)
		} else {
			n |= c << 14
		}
		used++
		if c&0x80 == 0 {
			break
		}
	}
	u.in[id].Write(b[used : used+n])
	if u.out[id] == nil {
		z, err := zlib.NewReader(&u.in[id])
		if err != nil {
			t.Fatal(err)
		}
		u.out[id] = z
	}
	data = make([]byte, want)
	if _, err := io.ReadFull(u.out[id], data); err != nil {
		t.Fatal(err)
	}
	return data, b[used+n:]
}

func (u *untight) decode(t *testing.T, b []byte) (*image.RGBA, []byte) {
	t.Helper()
	at := func(i int) int { return int(binary.BigEndian.Uint16(b[i:])) }
	img := image.NewRGBA(image.Rect(0, 0, at(4), at(6)))
	w, h := img.Rect.Dx(), img.Rect.Dy()
	b = b[12:]
	set := func(i int, rgb []byte) { copy(img.Pix[4*i:], []byte{rgb[0], rgb[1], rgb[2], 0xff}) }
	control := b[0]
	b = b[1:]
	switch {
	case control == tightFill:
		for i := range w * h {
			set(i, b)
		}
		return img, b[3:]
	case control&tightFilter == 0:
		data, rest := u.data(t, b, int(control>>4), 3*w*h)
		for i := range w * h {
			set(i, data[3*i:])
		}
		return img, rest
	}
	if b[0] != tightPalette {
		t.Fatalf("filter %d", b[0])
	}
	n := int(b[1]) + 1
	colours := b[2 : 2+3*n]
	b = b[2+3*n:]
	if n == 2 {
		stride := (w + 7) / 8
		data, rest := u.data(t, b, int(control>>4&3), stride*h)
		for y := range h {
			for x := range w {
				bit := int(data[y*stride+x/8] >> (7 - x%8) & 1)
				set(y*w+x, colours[3*bit:])
			}
		}
		return img, rest
	}
	data, rest := u.data(t, b, int(control>>4&3), w*h)
	for i, c := range data {
		set(i, colours[3*int(c):])
	}
	return img, rest
}

// TestTight: all kinds of rectangles come back as they were, on streams that go on.
func TestTight(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	e := encoder{format: natural(), kind: encTight}
	var u untight
	for _, colours := range []int{1, 2, 3, 256, 257, 2, 1, 5000, 16} {
		for _, size := range []image.Point{{1, 1}, {3, 2}, {64, 64}, {130, 7}, {1024, 64}} {
			img := painted(r, size, colours)
			out, err := e.rect(nil, img, img.Rect)
			if err != nil {
				t.Fatal(err)
			}
			got, rest := u.decode(t, out)
			if len(rest) > 0 || !bytes.Equal(got.Pix, img.Pix) {
				t.Fatalf("%d colours of %v: %d bytes left, pixels alike %t", colours, size, len(rest), bytes.Equal(got.Pix, img.Pix))
			}
		}
	}
}

// TestChanged: what differs is found, and nothing else, in every place.
func TestChanged(t *testing.T) {
	was := image.NewRGBA(image.Rect(0, 0, 300, 200))
	for _, p := range []image.Point{{0, 0}, {299, 199}, {63, 64}, {64, 63}, {150, 100}} {
		is := image.NewRGBA(was.Rect)
		is.Pix[is.PixOffset(p.X, p.Y)] = 1
		got := changed(was, is, nil)
		if len(got) != 1 || !p.In(got[0]) || got[0].Dx() > tileSide || got[0].Dy() > tileSide {
			t.Errorf("%v: %v", p, got)
		}
		if got := changed(was, is, []image.Rectangle{}); got != nil {
			t.Errorf("%v: %v although nothing was damaged", p, got)
		}
	}
	area := 0
	for _, r := range whole(image.Rect(5, 5, 2505, 300)) {
		area += r.Dx() * r.Dy()
		if r.Dx() > maxWide {
			t.Errorf("%v is too wide", r)
		}
	}
	if area != 2500*295 {
		t.Errorf("parts of %d pixels", area)
	}
}
