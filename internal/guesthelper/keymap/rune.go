package keymap

import (
	"strconv"
	"strings"
	"sync"
)

// unicodeBase is added to a code point to make its keysym (appendix A of the
// X11 protocol).
const unicodeBase Keysym = 0x01000000

// legacy maps the keysyms older than Unicode to code points.
var legacy = sync.OnceValue(func() map[Keysym]rune {
	m := map[Keysym]rune{}
	for pair := range strings.FieldsSeq(legacyTable) {
		sym, cp, _ := strings.Cut(pair, ":")
		s, err1 := strconv.ParseUint(sym, 16, 32)
		c, err2 := strconv.ParseUint(cp, 16, 32)
		if err1 == nil && err2 == nil {
			m[Keysym(s)] = rune(c)
		}
	}
	return m
})

// Rune is the character that a keysym types; false for keys without one,
// keypad keys and dead keys included.
func (k Keysym) Rune() (rune, bool) {
	switch {
	case k >= 0x20 && k <= 0x7e, k >= 0xa0 && k <= 0xff:
		return rune(k), true
	case k > unicodeBase && k <= unicodeBase+0x10ffff:
		return rune(k - unicodeBase), true
	case k == symReturn:
		return '\n', true
	case k == symTab:
		return '\t', true
	case k == symBackSpace:
		return '\b', true
	}
	r, ok := legacy()[k]
	return r, ok
}

// FromRune is the keysym that stands for r on any server.
func FromRune(r rune) Keysym {
	switch {
	case r == '\n', r == '\r':
		return symReturn
	case r == '\t':
		return symTab
	case r == '\b':
		return symBackSpace
	case r >= 0x20 && r <= 0x7e, r >= 0xa0 && r <= 0xff:
		return Keysym(r)
	}
	return unicodeBase + Keysym(r)
}

// Same says whether two keysyms mean the same key: equal, or typing the same
// character.
func Same(a, b Keysym) bool {
	if a == b {
		return true
	}
	ra, oka := a.Rune()
	rb, okb := b.Rune()
	return oka && okb && ra == rb
}
