package rfb_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"testing"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rfb"
)

// Colours, as they go over the wire: blue, green, red, and a byte to ignore.
var (
	red   = []byte{0, 0, 255, 0}
	green = []byte{0, 255, 0, 0}
	blue  = []byte{255, 0, 0, 0x7f}
)

// rect is one rectangle of an update.
//
//nolint:revive // a rectangle begins with five numbers
func rect(x, y, w, h int, enc int32, body ...[]byte) []byte {
	var b []byte
	for _, v := range []int{x, y, w, h} {
		b = binary.BigEndian.AppendUint16(b, uint16(v))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(enc))
	return append(b, bytes.Join(body, nil)...)
}

func update(rects ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0}, uint16(len(rects)))
	return append(b, bytes.Join(rects, nil)...)
}

// zrleBody compresses tiles as one flushed piece of a zlib stream.
type zrleBody struct {
	buf bytes.Buffer
	w   *zlib.Writer
}

func (z *zrleBody) next(tiles ...[]byte) []byte {
	if z.w == nil {
		z.w = zlib.NewWriter(&z.buf)
	}
	for _, t := range tiles {
		if _, err := z.w.Write(t); err != nil {
			panic(err)
		}
	}
	if err := z.w.Flush(); err != nil {
		panic(err)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(z.buf.Len()))
	out = append(out, z.buf.Bytes()...)
	z.buf.Reset()
	return out
}

// picture draws the image as letters: r, g, b, black ".", anything else "?".
func picture(img *image.RGBA) string {
	var s []byte
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			switch img.RGBAAt(x, y) {
			case color.RGBA{255, 0, 0, 255}:
				s = append(s, 'r')
			case color.RGBA{0, 255, 0, 255}:
				s = append(s, 'g')
			case color.RGBA{0, 0, 255, 255}:
				s = append(s, 'b')
			case color.RGBA{0, 0, 0, 255}:
				s = append(s, '.')
			default:
				s = append(s, '?')
			}
		}
		s = append(s, '/')
	}
	return string(s)
}

func TestDecode(t *testing.T) {
	r3, g3, b3 := red[:3], green[:3], blue[:3]
	var one, two, three, four, five, six, seven, eight zrleBody
	tests := []struct {
		name string
		data []byte
		want string
	}{
		{"raw", update(rect(1, 0, 2, 1, 0, red, blue)), ".rb./..../"},
		{"two rectangles", update(rect(0, 0, 1, 1, 0, red), rect(3, 1, 1, 1, 0, green)), "r.../...g/"},
		{"copyrect that overlaps", append(update(rect(0, 0, 3, 1, 0, red, green, blue)), update(rect(1, 0, 3, 1, 1, []byte{0, 0, 0, 0}))...), "rrgb/..../"},
		{"empty rectangle", update(rect(4, 2, 0, 0, 0)), "..../..../"},
		{"last rectangle", append([]byte{0, 0, 0xff, 0xff}, append(rect(0, 0, 1, 1, 0, green), rect(0, 0, 0, 0, -224)...)...), "g.../..../"},
		{"zrle raw", update(rect(0, 0, 2, 1, 16, one.next([]byte{0}, r3, g3))), "rg../..../"},
		{"zrle solid", update(rect(0, 0, 4, 2, 16, two.next([]byte{1}, b3))), "bbbb/bbbb/"},
		{"zrle two colours, packed", update(rect(0, 0, 4, 2, 16, three.next([]byte{2}, r3, g3, []byte{0b0101_0000, 0b1000_0000}))), "rgrg/grrr/"},
		{"zrle three colours, packed", update(rect(0, 0, 3, 2, 16, four.next([]byte{3}, r3, g3, b3, []byte{0b0001_1000, 0b1001_0000}))), "rgb./bgr./"},
		{"zrle five colours, packed", update(rect(0, 0, 2, 1, 16, five.next([]byte{5}, r3, g3, b3, r3, g3, []byte{0x24}))), "bg../..../"},
		{"zrle plain runs", update(rect(0, 0, 4, 2, 16, six.next([]byte{128}, r3, []byte{4}, g3, []byte{2}))), "rrrr/rggg/"},
		{"zrle palette runs", update(rect(0, 0, 4, 2, 16, seven.next([]byte{130}, r3, b3, []byte{0, 0x81, 5, 0}))), "rbbb/bbbr/"},
		{"zrle stream goes on", append(update(rect(0, 0, 1, 1, 16, eight.next([]byte{1}, r3))), update(rect(1, 0, 1, 1, 16, eight.next([]byte{1}, g3)))...), "rg../..../"},
		{"desktop size", append(update(rect(0, 0, 2, 1, -223)), update(rect(1, 0, 1, 1, 0, red))...), ".r/"},
		{"extended desktop size", update(rect(0, 0, 3, 1, -308, []byte{1, 0, 0, 0}, make([]byte, 16))), ".../"},
		{"refused extended size", update(rect(1, 1, 3, 1, -308, []byte{1, 0, 0, 0}, make([]byte, 16))), "..../..../"},
		{"colour map, bell and cut text are skipped", bytes.Join([][]byte{
			{1, 0, 0, 0, 0, 2}, make([]byte, 12), {2}, {3, 0, 0, 0, 0, 0, 0, 3, 'a', 'b', 'c'}, update(rect(0, 0, 1, 1, 0, red)),
		}, nil), "r.../..../"},
		{"lights and pointer kind", update(rect(0, 0, 1, 1, -261, []byte{7}), rect(1, 0, 4, 2, -257), rect(0, 0, 4, 2, -258)), "..../..../"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			img, _, err := rfb.Decode(4, 2, tt.data)
			if err != nil {
				t.Fatal(err)
			}
			if got := picture(img); got != tt.want {
				t.Errorf("got %s want %s", got, tt.want)
			}
		})
	}
}

// A ZRLE rectangle larger than a tile is cut into tiles of 64x64.
func TestDecodeTiles(t *testing.T) {
	var z zrleBody
	solid := func(c []byte) []byte { return append([]byte{1}, c[:3]...) }
	img, _, err := rfb.Decode(100, 70, update(rect(0, 0, 100, 70, 16, z.next(solid(red), solid(green), solid(blue), solid(red)))))
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[image.Point]color.RGBA{
		{63, 63}: {255, 0, 0, 255}, {64, 63}: {0, 255, 0, 255}, {99, 0}: {0, 255, 0, 255},
		{0, 64}: {0, 0, 255, 255}, {99, 69}: {255, 0, 0, 255},
	} {
		if got := img.RGBAAt(p.X, p.Y); got != want {
			t.Errorf("%v is %v, want %v", p, got, want)
		}
	}
}

func TestDecodeCursor(t *testing.T) {
	_, cur, err := rfb.Decode(4, 2, update(rect(1, 0, 2, 1, -239, red, green, []byte{0b1000_0000})))
	if err != nil {
		t.Fatal(err)
	}
	if got := [2]color.RGBA{cur.RGBAAt(0, 0), cur.RGBAAt(1, 0)}; got != [2]color.RGBA{{255, 0, 0, 255}, {}} {
		t.Errorf("rich cursor: %v", got)
	}
	_, cur, err = rfb.Decode(4, 2, update(rect(0, 0, 1, 1, -314, []byte{0, 0, 0, 0}, []byte{100, 0, 200, 128})))
	if err != nil {
		t.Fatal(err)
	}
	if got := cur.RGBAAt(0, 0); got != (color.RGBA{100, 0, 128, 128}) { // no colour exceeds its alpha
		t.Errorf("alpha cursor: %v", got)
	}
	_, cur, err = rfb.Decode(4, 2, append(update(rect(0, 0, 1, 1, -239, red, []byte{0x80})), update(rect(0, 0, 0, 0, -239))...))
	if err != nil || cur != nil {
		t.Errorf("hidden cursor: %v, %v", cur, err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	z := func(tiles ...[]byte) []byte { return new(zrleBody).next(tiles...) }
	tests := []struct {
		name string
		data []byte
	}{
		{"unknown message", []byte{77}},
		{"encoding nobody asked for", update(rect(0, 0, 1, 1, 5))},
		{"pseudo-encoding nobody asked for", update(rect(0, 0, 1, 1, -999))},
		{"rectangle right of the screen", update(rect(3, 0, 2, 1, 0, red, red))},
		{"rectangle below the screen", update(rect(0, 2, 1, 1, 0, red))},
		{"empty rectangle outside the screen", update(rect(999, 0, 0, 1, 1, []byte{0, 0, 0, 0}))},
		{"copy from outside", update(rect(0, 0, 2, 1, 1, []byte{0, 3, 0, 0}))},
		{"screen of no size", update(rect(0, 0, 0, 5, -223))},
		{"screen too wide", update(rect(0, 0, 17000, 1, -223))},
		{"screen of too many pixels", update(rect(0, 0, 8000, 8000, -223))},
		{"extended screen too large", update(rect(0, 0, 65535, 65535, -308, []byte{0, 0, 0, 0}))},
		{"cursor too large", update(rect(0, 0, 600, 1, -239))},
		{"alpha cursor in another encoding", update(rect(0, 0, 1, 1, -314, []byte{0, 0, 0, 16}, red))},
		{"cut text of 4 GiB", []byte{3, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}},
		{"zrle longer than it can be", update(rect(0, 0, 1, 1, 16, []byte{0x7f, 0, 0, 0}))},
		{"zrle without zlib", update(rect(0, 0, 1, 1, 16, []byte{0, 0, 0, 4, 1, 2, 3, 4}))},
		{"zrle cut short", update(rect(0, 0, 4, 2, 16, z([]byte{0, 1, 2, 3})))},
		{"zrle tile kind 17", update(rect(0, 0, 1, 1, 16, z([]byte{17})))},
		{"zrle tile kind 129", update(rect(0, 0, 1, 1, 16, z([]byte{129})))},
		{"zrle run leaves its tile", update(rect(0, 0, 2, 1, 16, z([]byte{128, 1, 2, 3, 2})))},
		{"zrle run without an end", update(rect(0, 0, 2, 1, 16, z([]byte{128, 1, 2, 3}, bytes.Repeat([]byte{255}, 100))))},
		{"zrle colour outside the palette", update(rect(0, 0, 1, 1, 16, z([]byte{3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 0xff})))},
		{"zrle run of a colour outside the palette", update(rect(0, 0, 1, 1, 16, z([]byte{130, 1, 2, 3, 1, 2, 3, 5})))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := rfb.Decode(4, 2, tt.data)
			var refused *rfb.ProtocolError
			if !errors.As(err, &refused) || !errors.Is(err, desktop.ErrDisconnect) {
				t.Errorf("%v, want a ProtocolError", err)
			}
		})
	}
}

func TestHandshakeRefuses(t *testing.T) {
	const v = "RFB 003.008\n"
	tests := []struct{ name, server string }{
		{"no RFB", "SSH-2.0-Open"},
		{"too old", "RFB 003.003\n"},
		{"refusal with a reason", v + "\x00\x00\x00\x00\x04busy"},
		{"password wanted", v + "\x01\x02"},
		{"security fails", v + "\x01\x01\x00\x00\x00\x01\x00\x00\x00\x02no"},
		{"screen of no size", v + "\x01\x01\x00\x00\x00\x00" + "\x00\x00\x00\x05" + string(make([]byte, 20))},
		{"endless name", v + "\x01\x01\x00\x00\x00\x00" + "\x00\x04\x00\x02" + string(make([]byte, 16)) + "\x7f\x00\x00\x00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var refused *rfb.ProtocolError
			if err := rfb.Handshake([]byte(tt.server)); !errors.As(err, &refused) {
				t.Errorf("%v, want a ProtocolError", err)
			}
		})
	}
	if err := rfb.Handshake([]byte(v + "\x01\x01\x00\x00\x00\x00" + "\x00\x04\x00\x02" + string(make([]byte, 16)) + "\x00\x00\x00\x04QEMU")); err != nil {
		t.Errorf("a good server: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	var z zrleBody
	f.Add(update(rect(1, 0, 2, 1, 0, red, blue)))
	f.Add(update(rect(0, 0, 4, 2, 16, z.next([]byte{130}, red[:3], blue[:3], []byte{0, 0x81, 5, 0}))))
	f.Add(update(rect(1, 0, 3, 1, 1, []byte{0, 0, 0, 0})))
	f.Add(update(rect(0, 0, 2, 1, -223), rect(0, 0, 2, 1, -239, red, red, []byte{0xff})))
	f.Add([]byte{3, 0, 0, 0, 0, 0, 0, 1, 'x', 2, 1, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		img, _, _ := rfb.Decode(16, 16, data)
		for i := 3; i < len(img.Pix); i += 4 {
			if img.Pix[i] != 0xff {
				t.Fatal("the screen is not opaque")
			}
		}
	})
}

func FuzzHandshake(f *testing.F) {
	f.Add([]byte("RFB 003.008\n\x01\x01\x00\x00\x00\x00\x00\x04\x00\x02" + string(make([]byte, 16)) + "\x00\x00\x00\x04QEMU"))
	f.Add([]byte("RFB 003.008\n\x00\x00\x00\x00\x04busy"))
	f.Fuzz(func(t *testing.T, server []byte) { _ = rfb.Handshake(server) })
}
