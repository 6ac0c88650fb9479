// Package clipboard reads and owns the CLIPBOARD selection of the desktop
// session as an X client of its own (ICCCM 2.0, sections 2 and 2.7), contents
// of any size included.
package clipboard

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Types that programs and agents exchange.
const (
	TypeText = "text/plain"
	TypeHTML = "text/html"
	TypePNG  = "image/png"
)

// MaxSize bounds a content in bytes, both ways.
const MaxSize = 64 << 20

const pngMagic = "\x89PNG\r\n\x1a\n"

// textTargets are the targets of text, best first.
var textTargets = [...]string{"UTF8_STRING", "text/plain;charset=utf-8", "text/plain;charset=UTF-8", "STRING", "text/plain", "TEXT"}

// item is a content in one target.
type item struct {
	kind string // the type that goes with the bytes; the target's own name for most
	data []byte
}

// contents maps targets to what they hold.
type contents map[string]item

// newContents offers c to everybody who may ask for it.
func newContents(c guest.Clipboard) (contents, error) {
	if len(c.Data) > MaxSize {
		return nil, &guest.Error{Code: guest.CodeNoSpace, Message: fmt.Sprintf("set clipboard: %d bytes are above the limit of %d", len(c.Data), MaxSize)}
	}
	switch {
	case c.Type == TypeText:
		if !utf8.Valid(c.Data) {
			return nil, &guest.Error{Code: guest.CodeInvalid, Message: "set clipboard: the text is not valid UTF-8"}
		}
		return textContents(c.Data), nil
	case c.Type == TypePNG && !bytes.HasPrefix(c.Data, []byte(pngMagic)):
		return nil, &guest.Error{Code: guest.CodeInvalid, Message: "set clipboard: the bytes are not a PNG"}
	case c.Type == TypeHTML, c.Type == TypePNG:
		return contents{c.Type: {c.Type, c.Data}}, nil
	}
	return nil, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("set clipboard: type %q: use text/plain, text/html or image/png", c.Type)}
}

func textContents(text []byte) contents {
	cs := contents{"TEXT": {"UTF8_STRING", text}, "STRING": {"STRING", latin1(text)}}
	for _, t := range textTargets {
		if _, ok := cs[t]; !ok {
			cs[t] = item{t, text}
		}
	}
	return cs
}

// targets lists what cs offers, in a stable order.
func (cs contents) targets() []string {
	ts := make([]string, 0, len(cs))
	for t := range cs {
		ts = append(ts, t)
	}
	slices.Sort(ts)
	return ts
}

// latin1 encodes text as STRING has it; what it lacks becomes '?'.
func latin1(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r > 0xff {
			r = '?'
		}
		out = append(out, byte(r))
	}
	return out
}

// choose picks the target to ask for a type; "" when none of targets has it.
func choose(kind string, targets []string) string {
	if kind != TypeText {
		if slices.Contains(targets, kind) {
			return kind
		}
		return ""
	}
	for _, t := range textTargets {
		if slices.Contains(targets, t) {
			return t
		}
	}
	return ""
}

// Types turns targets into MIME types, without doubles.
func Types(targets []string) []string {
	types := []string{}
	for _, t := range targets {
		switch {
		case slices.Contains(textTargets[:], t):
			t = TypeText
		case strings.Contains(t, "/"):
			t, _, _ = strings.Cut(t, ";")
		default:
			continue
		}
		if !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// Decode makes UTF-8 of a text that came with a type of X: STRING is Latin-1;
// a byte order mark says UTF-16, which some browsers give for HTML.
func Decode(kind string, data []byte) []byte {
	switch {
	case kind == "STRING" && !utf8.Valid(data):
		rs := make([]rune, len(data))
		for i, b := range data {
			rs[i] = rune(b)
		}
		return []byte(string(rs))
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}):
		return fromUTF16(data[2:], binary.LittleEndian)
	case bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return fromUTF16(data[2:], binary.BigEndian)
	}
	return data
}

func fromUTF16(data []byte, order binary.ByteOrder) []byte {
	us := make([]uint16, 0, len(data)/2)
	for ; len(data) >= 2; data = data[2:] {
		us = append(us, order.Uint16(data))
	}
	return []byte(string(utf16.Decode(us)))
}
