package rfbserver

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/deskfork/deskfork/pkg/desktop"
)

func TestPlace(t *testing.T) {
	for code, want := range map[uint32]desktop.Keycode{0x1e: 0x1e, 0x9d: 0x9d, 0xe01d: 0x9d, 0xe049: 0xc9, 0x12345: 0} {
		if got := place(code); got != want {
			t.Errorf("%#x is %#x, want %#x", code, got, want)
		}
	}
}

func TestFormats(t *testing.T) {
	for _, tc := range []struct {
		name string
		wire []byte
		want []byte // of red 0xff, green 0x80, blue 0x01
		ok   bool
	}{
		{"natural", natural().wire(), []byte{0x01, 0x80, 0xff, 0}, true},
		{"red lowest", []byte{32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 0, 8, 16, 0, 0, 0}, []byte{0xff, 0x80, 0x01, 0}, true},
		{"big endian", []byte{32, 24, 1, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0}, []byte{0, 0xff, 0x80, 0x01}, true},
		{"565", []byte{16, 16, 0, 1, 0, 31, 0, 63, 0, 31, 11, 5, 0, 0, 0, 0}, []byte{0x00, 0xfc}, true},
		{"332", []byte{8, 8, 0, 1, 0, 7, 0, 7, 0, 3, 0, 3, 6, 0, 0, 0}, []byte{0x27}, true},
		{"colour map", []byte{8, 8, 0, 0, 0, 7, 0, 7, 0, 3, 0, 3, 6, 0, 0, 0}, nil, false},
		{"24 bits", []byte{24, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0}, nil, false},
		{"shifted away", []byte{32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 40, 0, 0, 0}, nil, false},
		{"no mask", []byte{32, 24, 0, 1, 0, 200, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := parseFormat(tc.wire)
			if (err == nil) != tc.ok {
				t.Fatal(err)
			}
			if !tc.ok {
				if !errors.Is(err, ErrProtocol) {
					t.Errorf("%v", err)
				}
				return
			}
			f, ok := m.(format)
			if !ok {
				t.Fatalf("read %T", m)
			}
			if got := f.wire(); !bytes.Equal(got, tc.wire) {
				t.Errorf("written %v, read %v", got, tc.wire)
			}
			rgb := []byte{0xff, 0x80, 0x01, 0xff}
			if got := f.pixel(nil, rgb); !bytes.Equal(got, tc.want) {
				t.Errorf("pixel %x, want %x", got, tc.want)
			}
			if f.plain {
				img := tiny(rgb)
				if got := f.append(nil, img, img.Rect); !bytes.Equal(got, tc.want) {
					t.Errorf("quick pixel %x, want %x", got, tc.want)
				}
			}
		})
	}
}

// FuzzMessages: whatever a client sends is read or refused, and never takes more
// memory than it sends, but for the bounds that are stated.
func FuzzMessages(f *testing.F) {
	for _, seed := range [][]byte{
		append([]byte{0, 0, 0, 0}, natural().wire()...),
		{2, 0, 0, 2, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0x21},
		{3, 1, 0, 0, 0, 0, 5, 0, 3, 32},
		{4, 1, 0, 0, 0, 0, 0, 0x61},
		{5, 1, 0, 10, 0, 20},
		{6, 0, 0, 0, 0, 0, 0, 2, 'h', 0xe9},
		{150, 1, 0, 0, 0, 0, 5, 0, 3, 32},
		{248, 0, 0, 0, 0x80, 0, 0, 1, 2, 9, 9},
		{251, 0, 5, 0, 3, 32, 0, 0},
		{255, 0, 0, 1, 0, 0, 0, 0x61, 0, 0, 0, 0x1e},
		{255, 9, 0, 1, 0, 0, 0, 0x61, 0, 0, 0, 0x1e},
		{6, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		r := reader{bytes.NewReader(in)}
		var st state
		for {
			m, err := r.next()
			if err != nil {
				if !errors.Is(err, ErrProtocol) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%v", err)
				}
				return
			}
			switch m := m.(type) {
			case cutText:
				if len(m.text) > 2*maxCut {
					t.Fatalf("a text of %d bytes", len(m.text))
				}
			case keyEvent, pointerEvent, setDesktopSize:
			default:
				st.take(m)
			}
			if len(st.answers) > 2*maxPending {
				t.Fatalf("%d answers wait", len(st.answers))
			}
		}
	})
}
