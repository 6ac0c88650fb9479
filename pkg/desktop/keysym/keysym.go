// Package keysym turns names of keys into keys. It knows the names of X11, of
// browsers (KeyboardEvent.key and .code) and of the common agent tools, in any
// case, every single Unicode character, and chords such as "ctrl+shift+t".
// Where a key has a place on a US PC keyboard it also knows the scancode, which
// is what QEMU's extended key events carry.
package keysym

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// UnknownError says that a name is no key. It matches desktop.ErrUnknownKey.
type UnknownError struct {
	Name       string
	Suggestion string // the nearest known name; may be empty
}

func (e *UnknownError) Error() string {
	if e.Suggestion == "" {
		return fmt.Sprintf("unknown key %q", e.Name)
	}
	return fmt.Sprintf("unknown key %q: did you mean %q?", e.Name, e.Suggestion)
}

// Is makes errors.Is(err, desktop.ErrUnknownKey) true.
func (e *UnknownError) Is(target error) bool { return target == desktop.ErrUnknownKey }

// Stroke is what a US keyboard does to write a character.
type Stroke struct {
	Key   desktop.Key
	Shift bool // Shift is held meanwhile
}

// Parse returns the key with this name. A single character names the key that
// writes it. Case, "_", "-" and spaces do not matter: "Page_Down", "PageDown",
// "page down" and "PAGEDOWN" are one; where X11 tells two keys apart by case
// alone ("Aacute", "aacute"), the exact spelling wins.
func Parse(name string) (desktop.Key, error) {
	t := tables()
	folded := fold(name)
	if k, ok := t.alias[folded]; ok { // before single characters: "⌘" is a key
		return k, nil
	}
	if r, n := utf8.DecodeRuneInString(name); n > 0 && n == len(name) && r != utf8.RuneError {
		return Rune(r).Key, nil
	}
	if sym, ok := t.exact[name]; ok {
		return t.key(sym), nil
	}
	if named, ok := t.folded[folded]; ok {
		return t.key(named.sym), nil
	}
	if sym, ok := unicodeName(name); ok {
		return t.key(sym), nil
	}
	return desktop.Key{}, &UnknownError{Name: name, Suggestion: t.nearest(folded)}
}

// Rune returns the stroke that writes r. Code is 0 when no US key does.
func Rune(r rune) Stroke {
	switch r {
	case '\n', '\r':
		return Stroke{Key: desktop.Key{Sym: Return, Code: 0x1c}}
	case '\t':
		return Stroke{Key: desktop.Key{Sym: Tab, Code: 0x0f}}
	case '\b':
		return Stroke{Key: desktop.Key{Sym: BackSpace, Code: 0x0e}}
	case 0x1b:
		return Stroke{Key: desktop.Key{Sym: Escape, Code: 0x01}}
	case 0x7f:
		return Stroke{Key: desktop.Key{Sym: Delete, Code: 0xd3}}
	}
	s := usStrokes()[r]
	s.Key.Sym = runeSym(r)
	return s
}

// runeSym returns the keysym of a character: itself in Latin-1, otherwise
// 0x01000000 plus the code point.
func runeSym(r rune) desktop.Keysym {
	if (r >= 0x20 && r <= 0x7e) || (r >= 0xa0 && r <= 0xff) {
		return desktop.Keysym(r)
	}
	return 0x01000000 | desktop.Keysym(r)
}

// Name returns the X11 name of a keysym, or U+XXXX for a character that has
// none, or the number in hexadecimal.
func Name(sym desktop.Keysym) string {
	if n, ok := tables().names[sym]; ok {
		return n
	}
	if sym&0xff000000 == 0x01000000 {
		return fmt.Sprintf("U%04X", uint32(sym&0xffffff))
	}
	return fmt.Sprintf("0x%x", uint32(sym))
}

// unicodeName reads X11's U20AC and the hexadecimal 0x20ac forms.
func unicodeName(name string) (desktop.Keysym, bool) {
	var v uint32
	switch {
	case len(name) >= 5 && len(name) <= 7 && (name[0] == 'U' || name[0] == 'u'):
		hex := strings.TrimPrefix(name[1:], "+")
		if !parseHex(hex, &v) || v > utf8.MaxRune {
			return 0, false
		}
		return runeSym(rune(v)), true
	case len(name) > 2 && len(name) <= 10 && (strings.HasPrefix(name, "0x") || strings.HasPrefix(name, "0X")):
		if !parseHex(name[2:], &v) || v == 0 {
			return 0, false
		}
		return desktop.Keysym(v), true
	}
	return 0, false
}

func parseHex(s string, v *uint32) bool {
	if s == "" {
		return false
	}
	for _, c := range []byte(s) {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 {
			return false
		}
		*v = *v<<4 | uint32(d)
	}
	return true
}

// fold is the form in which names are compared in any case.
func fold(name string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == ' ' {
			return -1
		}
		return r
	}, name))
}
