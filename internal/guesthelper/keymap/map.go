// Package keymap finds which keys produce which characters: an XKB map as it
// was read from the server, lookups in it, and plans that type any text, with
// spare keys for characters that the layout lacks. It is pure: it talks to
// nobody.
package keymap

import "slices"

// Keysym is an X11 keysym; 0 is none.
type Keysym uint32

// Bits of the real modifiers.
const (
	ModShift   = 1 << 0
	ModLock    = 1 << 1
	ModControl = 1 << 2
	ModAlt     = 1 << 3 // Mod1
	ModSuper   = 1 << 6 // Mod4
)

// Keysyms that this package and its users name.
const (
	symBackSpace   Keysym = 0xff08
	symTab         Keysym = 0xff09
	symReturn      Keysym = 0xff0d
	symModeSwitch  Keysym = 0xff7e
	symNumLock     Keysym = 0xff7f
	symShiftL      Keysym = 0xffe1
	symShiftR      Keysym = 0xffe2
	symCapsLock    Keysym = 0xffe5
	symShiftLock   Keysym = 0xffe6
	symLevel3Shift Keysym = 0xfe03
	symLevel5Shift Keysym = 0xfe11
	symISOLock     Keysym = 0xfe01
	symLevel3Lock  Keysym = 0xfe05
	symLevel5Lock  Keysym = 0xfe13
	SymInsert      Keysym = 0xff63
	SymShift       Keysym = symShiftL
	SymControl     Keysym = 0xffe3
	SymReturn      Keysym = symReturn
)

type levelMods struct{ level, mods byte }

// keyType says which modifiers lead to which level.
type keyType struct {
	mask    byte
	entries []levelMods
}

// mods lists the modifier sets that select level.
func (t keyType) modsFor(level int) []byte {
	var out []byte
	for _, e := range t.entries {
		if int(e.level) == level {
			out = append(out, e.mods)
		}
	}
	if level == 0 && t.level(0) == 0 {
		out = append(out, 0)
	}
	return out
}

func (t keyType) level(mods byte) int {
	for _, e := range t.entries {
		if e.mods == mods&t.mask {
			return int(e.level)
		}
	}
	return 0
}

type key struct {
	types [maxGroups]int
	info  byte // number of groups and what to do with a group out of range
	width int
	syms  []Keysym
}

// group is the group that counts when the keyboard's is g; -1 when none.
func (k key) group(g byte) int {
	n := int(k.info & groupsMask)
	switch {
	case n == 0:
		return -1
	case int(g) < n:
		return int(g)
	}
	switch k.info & rangeMask {
	case rangeClamp:
		return n - 1
	case rangeTarget:
		if t := int(k.info >> 4 & 0x3); t < n {
			return t
		}
		return 0
	}
	return int(g) % n
}

// Map is a keyboard map. It is immutable after Parse.
type Map struct {
	Min, Max byte // keycodes
	types    []keyType
	keys     [256]key
	mods     [256]byte
}

// Stroke is one key press: which key, under which modifiers and group.
type Stroke struct {
	Code  byte
	Mods  byte
	Group byte
}

// Syms returns the symbols of a key under a group, by level.
func (m *Map) Syms(code, group byte) []Keysym {
	k := m.keys[code]
	g := k.group(group)
	if g < 0 {
		return nil
	}
	return k.syms[g*k.width : (g+1)*k.width]
}

// Modifier returns the modifiers that a key sets.
func (m *Map) Modifier(code byte) byte { return m.mods[code] }

// NumLock is the modifier bit of Num Lock; 0 when there is none.
func (m *Map) NumLock() byte {
	for c := int(m.Min); c <= int(m.Max); c++ {
		if m.mods[c] != 0 && slices.Contains(m.Syms(byte(c), 0), symNumLock) {
			return m.mods[c]
		}
	}
	return 0
}

// Locking says whether a key locks a modifier instead of holding it.
func (m *Map) Locking(code byte) bool {
	for _, s := range m.Syms(code, 0) {
		switch s {
		case symNumLock, symCapsLock, symShiftLock, symISOLock, symLevel3Lock, symLevel5Lock:
			return true
		default:
		}
	}
	return false
}

// Shifter finds a key to hold for each bit of mods; false when a bit has none
// that only chooses levels (Control and Alt would make a shortcut of it).
func (m *Map) Shifter(mods byte) ([]byte, bool) {
	var codes []byte
	for bit := byte(1); bit != 0; bit <<= 1 {
		if mods&bit == 0 {
			continue
		}
		c, ok := m.shifterKey(bit)
		if !ok {
			return nil, false
		}
		codes = append(codes, c)
	}
	return codes, true
}

func (m *Map) shifterKey(bit byte) (byte, bool) {
	for c := int(m.Min); c <= int(m.Max); c++ {
		if m.mods[c] != bit {
			continue
		}
		syms := m.Syms(byte(c), 0)
		if len(syms) == 0 {
			continue
		}
		switch syms[0] {
		case symShiftL, symShiftR, symLevel3Shift, symLevel5Shift, symModeSwitch:
			return byte(c), true
		default:
		}
	}
	return 0, false
}

// Find returns the simplest stroke for which ok accepts the symbol: of the
// current group before others, with few modifiers, of the lowest key.
func (m *Map) Find(group byte, ok func(Keysym) bool) (Stroke, bool) {
	if s, found := m.FindIn(group, ok); found {
		return s, true
	}
	for g := range byte(maxGroups) {
		if g == group {
			continue
		}
		if s, found := m.FindIn(g, ok); found {
			return s, true
		}
	}
	return Stroke{}, false
}

// FindIn is Find in one group alone.
func (m *Map) FindIn(group byte, ok func(Keysym) bool) (Stroke, bool) {
	var (
		best  Stroke
		found bool
	)
	for c := int(m.Min); c <= int(m.Max); c++ {
		k := m.keys[c]
		g := k.group(group)
		if g < 0 || (g != int(group) && m.mods[c] != 0) {
			continue
		}
		for level, sym := range m.Syms(byte(c), group) {
			if sym == 0 || !ok(sym) {
				continue
			}
			for _, mods := range m.types[k.types[g]].modsFor(level) {
				s := Stroke{Code: byte(c), Mods: mods, Group: group}
				if _, can := m.Shifter(mods); can && (!found || simpler(s, best)) {
					best, found = s, true
				}
			}
		}
	}
	return best, found
}

// FindNow returns the stroke that produces such a symbol while exactly mods
// are in effect, without any other modifier.
func (m *Map) FindNow(group, mods byte, ok func(Keysym) bool) (Stroke, bool) {
	for c := int(m.Min); c <= int(m.Max); c++ {
		syms := m.Syms(byte(c), group)
		if len(syms) == 0 {
			continue
		}
		k := m.keys[c]
		level := m.types[k.types[k.group(group)]].level(mods)
		if level < len(syms) && syms[level] != 0 && ok(syms[level]) {
			return Stroke{Code: byte(c), Group: group}, true
		}
	}
	return Stroke{}, false
}

// simpler orders by number of modifiers, Shift before others.
func simpler(a, b Stroke) bool {
	na, nb := bits(a.Mods), bits(b.Mods)
	return na < nb || (na == nb && a.Mods < b.Mods)
}

func bits(b byte) int {
	n := 0
	for ; b != 0; b &= b - 1 {
		n++
	}
	return n
}

// Spare lists the keys that have no symbol and no modifier, highest first.
func (m *Map) Spare() []byte {
	var codes []byte
	for c := int(m.Max); c >= int(m.Min); c-- {
		if m.mods[c] != 0 || slices.ContainsFunc(m.keys[c].syms, func(s Keysym) bool { return s != 0 }) {
			continue
		}
		codes = append(codes, byte(c))
	}
	return codes
}
