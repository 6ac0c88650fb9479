package rtc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/png"
	"unicode/utf8"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Kind is what a message of a viewer is about.
type Kind byte

// Kinds.
const (
	KindMove     Kind = 1
	KindButtons  Kind = 2
	KindKey      Kind = 3
	KindScroll   Kind = 4
	KindText     Kind = 5
	KindRelease  Kind = 6
	KindKeyframe Kind = 7
	KindStay     Kind = 8
	KindClip     Kind = 9
)

// Kinds of messages to viewers.
const (
	kindLook    = 16
	kindPlace   = 17
	kindRefused = 18
	kindClip    = 19
)

// Bounds of the texts of messages, in bytes.
const (
	maxText = 4096
	maxClip = 60_000
)

// MaxMessage is the longest message of a viewer, in bytes.
const MaxMessage = maxClip + 5

// ErrMessage says that a viewer sent what is no message.
var ErrMessage = errors.New("malformed message")

// Message is one message of a viewer. What its kind has no use for is zero.
type Message struct {
	Kind   Kind
	Seq    uint32
	At     image.Point    // move, buttons, scroll
	Held   desktop.Button // buttons: exactly these
	Key    desktop.Key
	Down   bool
	Scroll image.Point // in 1/120 of a notch; right and down are positive
	Text   string      // text, clip
}

// sizes of messages, in bytes, but for their texts.
var sizes = map[Kind]int{
	KindMove: 9, KindButtons: 11, KindKey: 14, KindScroll: 13, KindText: 5, KindRelease: 5, KindKeyframe: 5, KindStay: 5, KindClip: 5,
}

// texts are the kinds that end with a text, and how long that may be, in bytes.
var texts = map[Kind]int{KindText: maxText, KindClip: maxClip}

// Parse reads a message.
func Parse(b []byte) (Message, error) {
	if len(b) == 0 {
		return Message{}, fmt.Errorf("%w: it is empty", ErrMessage)
	}
	m := Message{Kind: Kind(b[0])}
	size, ok := sizes[m.Kind]
	if !ok || len(b) < size || len(b) > size+texts[m.Kind] {
		return Message{}, fmt.Errorf("%w: kind %d of %d bytes", ErrMessage, b[0], len(b))
	}
	m.Seq = binary.BigEndian.Uint32(b[1:])
	u16 := func(i int) int { return int(binary.BigEndian.Uint16(b[i:])) }
	switch m.Kind {
	case KindMove, KindButtons, KindScroll:
		m.At = image.Pt(u16(5), u16(7))
		if m.Kind == KindButtons {
			m.Held = desktop.Button(u16(9))
		}
		if m.Kind == KindScroll {
			m.Scroll = image.Pt(int(int16(u16(9))), int(int16(u16(11))))
		}
	case KindKey:
		m.Key = desktop.Key{Sym: desktop.Keysym(binary.BigEndian.Uint32(b[5:])), Code: desktop.Keycode(binary.BigEndian.Uint32(b[9:]))}
		m.Down = b[13] != 0
	case KindText, KindClip:
		if m.Text = string(b[5:]); !utf8.ValidString(m.Text) {
			return Message{}, fmt.Errorf("%w: text that is no UTF-8", ErrMessage)
		}
	case KindRelease, KindKeyframe, KindStay:
	}
	return m, nil
}

// place is the message of where the pointer is.
func place(p image.Point) []byte {
	b := binary.BigEndian.AppendUint16([]byte{kindPlace}, uint16(max(p.X, 0)))
	return binary.BigEndian.AppendUint16(b, uint16(max(p.Y, 0)))
}

// look is the message of how the pointer looks.
func look(c desktop.Cursor) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte(kindLook)
	hot := binary.BigEndian.AppendUint16(nil, uint16(max(c.Hotspot.X, 0)))
	b.Write(binary.BigEndian.AppendUint16(hot, uint16(max(c.Hotspot.Y, 0))))
	if c.Image != nil {
		if err := png.Encode(&b, c.Image); err != nil {
			return nil, fmt.Errorf("encode cursor: %w", err)
		}
	}
	return b.Bytes(), nil
}

// refused is the message of input that was not played.
func refused(seq uint32, code, text string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kindRefused}, seq)
	return append(append(append(b, code...), 0), text[:min(len(text), 1024)]...)
}

// clip is the message of a text that has come into the desktop's clipboard; nil: it
// is too long for one.
func clip(text string) []byte {
	if len(text) > maxClip {
		return nil
	}
	return append([]byte{kindClip}, text...)
}

// Pointers makes the messages that tell a viewer of the pointer: none for what it
// knows already. The zero Pointers has told nothing.
type Pointers struct {
	told bool
	last desktop.Cursor
}

// Tell returns the messages about c.
func (p *Pointers) Tell(c desktop.Cursor) ([][]byte, error) {
	var out [][]byte
	if !p.told || c.Image != p.last.Image || c.Hotspot != p.last.Hotspot {
		b, err := look(c)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	if !p.told || c.Pos != p.last.Pos {
		out = append(out, place(c.Pos))
	}
	p.told, p.last = true, c
	return out, nil
}
