package keymap_test

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guesthelper/keymap"
)

const (
	shift = keymap.ModShift
	lock  = keymap.ModLock
	mod5  = 1 << 7 // AltGr here
	mod2  = 1 << 4 // Num Lock here
)

// builder writes a reply of XkbGetMap.
type builder struct {
	types, mods []byte
	nTypes      byte
	keys        map[byte][]byte
	nMods       byte
}

func (b *builder) addType(mask, levels byte, entries ...[2]byte) {
	b.types = append(b.types, mask, mask, 0, 0, levels, byte(len(entries)), 0, 0)
	for _, e := range entries { // mods, level
		b.types = append(b.types, 1, e[0], e[1], e[0], 0, 0, 0, 0)
	}
	b.nTypes++
}

// key adds a key of groups that all have one type and one width.
func (b *builder) key(code, kind, groups, width byte, syms ...uint32) {
	k := []byte{kind, kind, kind, kind, groups, width, 0, 0}
	binary.LittleEndian.PutUint16(k[6:], uint16(len(syms)))
	for _, s := range syms {
		k = binary.LittleEndian.AppendUint32(k, s)
	}
	if b.keys == nil {
		b.keys = map[byte][]byte{}
	}
	b.keys[code] = k
}

func (b *builder) mod(code, mods byte) {
	b.mods = append(b.mods, code, mods)
	b.nMods++
}

func (b *builder) reply() []byte {
	const first, last = 8, 40
	out := make([]byte, 40)
	out[0], out[10], out[11] = 1, first, last
	binary.LittleEndian.PutUint16(out[12:], 7)
	out[15], out[16] = b.nTypes, b.nTypes
	out[17], out[20] = first, last-first+1
	out[33] = b.nMods
	out = append(out, b.types...)
	for c := byte(first); c <= last; c++ {
		if k := b.keys[c]; k != nil {
			out = append(out, k...)
		} else {
			out = append(out, make([]byte, 8)...)
		}
	}
	return append(out, b.mods...)
}

// german is a small keyboard with three spare keys: 38 to 40 and those that
// tests leave out are empty.
func german() *builder {
	b := &builder{}
	b.addType(0, 1)
	b.addType(shift|lock, 2, [2]byte{shift, 1}, [2]byte{lock, 1})
	b.addType(shift|mod5, 4, [2]byte{shift, 1}, [2]byte{mod5, 2}, [2]byte{shift | mod5, 3})
	b.addType(keymap.ModControl, 2, [2]byte{keymap.ModControl, 1})
	b.key(8, 1, 1, 2, 'a', 'A')
	b.key(9, 2, 1, 4, 'q', 'Q', '@', 0x07d9)   // AltGr: at sign, Greek omega
	b.key(10, 1, 2, 2, 'v', 'V', 0x6cd, 0x6ed) // second group: Cyrillic em
	b.key(11, 2, 1, 4, '1', '!', 0, 0)
	b.key(12, 0, 1, 1, 0xff0d)
	b.key(13, 0, 1, 1, 0xff09)
	b.key(14, 3, 1, 2, 'y', '%') // % behind Control: no text
	b.key(15, 0, 1, 1, 0xfe50)   // a dead key
	b.key(16, 0, 1, 1, 0xffb1)   // keypad 1
	b.key(20, 0, 1, 1, 0xffe1)
	b.key(21, 0, 1, 1, 0xfe03)
	b.key(22, 0, 1, 1, 0xff7f)
	b.key(23, 0, 1, 1, 0xffe3)
	b.key(24, 0, 1, 1, 0xffe5)
	b.mod(20, shift)
	b.mod(21, mod5)
	b.mod(22, mod2)
	b.mod(23, keymap.ModControl)
	b.mod(24, lock)
	for c := byte(25); c < 38; c++ {
		b.key(c, 0, 1, 1, 0xffc0)
	}
	for _, c := range []byte{17, 18, 19} {
		b.key(c, 0, 1, 1, 0xffc1)
	}
	return b
}

func parse(t *testing.T, b *builder) *keymap.Map {
	t.Helper()
	m, err := keymap.Parse(b.reply())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestFind(t *testing.T) {
	m := parse(t, german())
	for name, c := range map[string]struct {
		group byte
		r     rune
		want  keymap.Stroke
		none  bool
	}{
		"plain":               {0, 'a', keymap.Stroke{Code: 8}, false},
		"shifted":             {0, 'A', keymap.Stroke{Code: 8, Mods: shift}, false},
		"AltGr":               {0, '@', keymap.Stroke{Code: 9, Mods: mod5}, false},
		"AltGr and Shift":     {0, 'ω', keymap.Stroke{Code: 9, Mods: mod5 | shift}, true}, // omega is 0x7f9
		"legacy keysym":       {0, 'Ω', keymap.Stroke{Code: 9, Mods: mod5 | shift}, false},
		"other group":         {0, 'м', keymap.Stroke{Code: 10, Group: 1}, false},
		"this group first":    {1, 'М', keymap.Stroke{Code: 10, Mods: shift, Group: 1}, false},
		"newline":             {0, '\n', keymap.Stroke{Code: 12}, false},
		"tab":                 {0, '\t', keymap.Stroke{Code: 13}, false},
		"not behind Control":  {0, '%', keymap.Stroke{}, true},
		"no dead key":         {0, '`', keymap.Stroke{}, true},
		"no such letter":      {0, '漢', keymap.Stroke{}, true},
		"not from the keypad": {0, '1', keymap.Stroke{Code: 11}, false},
	} {
		t.Run(name, func(t *testing.T) {
			want := keymap.FromRune(c.r)
			got, ok := m.Find(c.group, func(s keymap.Keysym) bool { return keymap.Same(s, want) })
			if ok == c.none {
				t.Fatalf("found %v: %+v", ok, got)
			}
			if !c.none && got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFindNow(t *testing.T) {
	m := parse(t, german())
	is := func(s keymap.Keysym) func(keymap.Keysym) bool { return func(k keymap.Keysym) bool { return k == s } }
	if st, ok := m.FindNow(0, shift, is('A')); !ok || st != (keymap.Stroke{Code: 8}) {
		t.Errorf("A while Shift is held: %+v, %v", st, ok)
	}
	if st, ok := m.FindNow(0, lock, is('A')); !ok || st.Code != 8 {
		t.Errorf("A while Caps Lock is on: %+v, %v", st, ok)
	}
	if _, ok := m.FindNow(0, shift, is('a')); ok {
		t.Error("a while Shift is held")
	}
	if m.NumLock() != mod2 {
		t.Errorf("Num Lock is %#x", m.NumLock())
	}
	if !m.Locking(24) || !m.Locking(22) || m.Locking(20) {
		t.Error("which keys lock")
	}
	if diff := cmp.Diff([]byte{40, 39, 38}, m.Spare()); diff != "" {
		t.Error(diff)
	}
}

func TestPlan(t *testing.T) {
	m := parse(t, german())
	spares := keymap.NewSpares(m.Spare())
	segs, err := keymap.Plan(m, 0, spares, []rune("a漢A漢字"))
	if err != nil {
		t.Fatal(err)
	}
	want := []keymap.Segment{{
		Assign:  []keymap.Assignment{{Code: 40, Sym: 0x01006f22}, {Code: 39, Sym: 0x01005b57}},
		Strokes: []keymap.Stroke{{Code: 8}, {Code: 40}, {Code: 8, Mods: shift}, {Code: 40}, {Code: 39}},
	}}
	if diff := cmp.Diff(want, segs); diff != "" {
		t.Error(diff)
	}
	// What is lent stays; the least recently used key goes first, and only
	// where a segment does not need it itself.
	segs, err = keymap.Plan(m, 0, spares, []rune("字一二三四"))
	if err != nil {
		t.Fatal(err)
	}
	want = []keymap.Segment{
		{
			Assign:     []keymap.Assignment{{Code: 38, Sym: 0x01004e00}, {Code: 40, Sym: 0x01004e8c}},
			Strokes:    []keymap.Stroke{{Code: 39}, {Code: 38}, {Code: 40}},
			Overwrites: true,
		},
		{
			Assign:     []keymap.Assignment{{Code: 39, Sym: 0x01004e09}, {Code: 38, Sym: 0x010056db}},
			Strokes:    []keymap.Stroke{{Code: 39}, {Code: 38}},
			Overwrites: true,
		},
	}
	if diff := cmp.Diff(want, segs); diff != "" {
		t.Error(diff)
	}
	if _, err := keymap.Plan(m, 0, keymap.NewSpares(nil), []rune("漢")); !errors.Is(err, keymap.ErrNoSpare) {
		t.Errorf("without spare keys: %v", err)
	}
}

// TestPlanTypesItsText plays plans on the map they were made for.
func TestPlanTypesItsText(t *testing.T) {
	m := parse(t, german())
	spares := keymap.NewSpares(m.Spare())
	for _, text := range []string{"aAvV1!@Ω\n\tq", "мМvм", "漢字かなカナ한국어中文😀a漢字", "", "🇩🇪👩‍💻"} {
		segs, err := keymap.Plan(m, 0, spares, []rune(text))
		if err != nil {
			t.Fatal(err)
		}
		lent := map[byte]keymap.Keysym{}
		var got []rune
		for _, seg := range segs {
			for _, a := range seg.Assign {
				lent[a.Code] = a.Sym
			}
			for _, st := range seg.Strokes {
				sym := lent[st.Code]
				if sym == 0 {
					sym = pressed(m, st)
				}
				r, _ := sym.Rune()
				got = append(got, r)
			}
		}
		if string(got) != text {
			t.Errorf("typed %q, want %q", string(got), text)
		}
	}
}

// pressed is what a stroke produces.
func pressed(m *keymap.Map, st keymap.Stroke) keymap.Keysym {
	for _, s := range m.Syms(st.Code, st.Group) {
		now, ok := m.FindNow(st.Group, st.Mods, func(k keymap.Keysym) bool { return k == s })
		if ok && now.Code == st.Code {
			return s
		}
	}
	return 0
}

func TestText(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "a\n\tä\r\n": true, "a\x00": false, "\x1b": false, "\u0085": false, "\xff": false, "\u200d": true,
	} {
		if err := keymap.CheckText(text); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got := string(keymap.Runes("a\r\nb\rc\nd\n\n")); got != "a\nb\nc\nd\n\n" {
		t.Errorf("got %q", got)
	}
}

func TestKeysyms(t *testing.T) {
	for sym, r := range map[keymap.Keysym]rune{
		'a': 'a', 0xe4: 'ä', 0x6cd: 'м', 0x20ac: '€', 0x07d9: 'Ω', 0x0101f600: '😀', 0xff0d: '\n', 0x1a1: 'Ą',
	} {
		if got, ok := sym.Rune(); !ok || got != r {
			t.Errorf("%#x is %q", uint32(sym), got)
		}
	}
	for _, sym := range []keymap.Keysym{0, 0xffe1, 0xfe50, 0xffb1, 0x01000000, 0x02000000} {
		if r, ok := sym.Rune(); ok {
			t.Errorf("%#x is %q", uint32(sym), r)
		}
	}
	if n := len(keymap.Legacy()); n < 700 {
		t.Errorf("the table has %d entries", n)
	}
	for _, r := range "aäЖ漢😀\n\t~€" {
		if got, ok := keymap.FromRune(r).Rune(); !ok || got != r {
			t.Errorf("%q comes back as %q", r, got)
		}
	}
	for sym, code := range map[keymap.Keysym]byte{'v': 55, 'V': 55, 'q': 24, '0': 19, 'm': 58} {
		if got, ok := keymap.Place(sym); !ok || got != code {
			t.Errorf("the place of %q is %d", rune(sym), got)
		}
	}
	for _, sym := range []keymap.Keysym{0x10, 0x6cd, '-', 0xffe1} {
		if got, ok := keymap.Place(sym); ok {
			t.Errorf("%#x has place %d", uint32(sym), got)
		}
	}
}

func FuzzParse(f *testing.F) {
	good := german().reply()
	f.Add(good)
	f.Add(good[:60])
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := keymap.Parse(in)
		if err != nil {
			if !errors.Is(err, keymap.ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		segs, err := keymap.Plan(m, 0, keymap.NewSpares(m.Spare()), []rune("aÄ漢😀\n"))
		if err == nil && len(segs) == 0 {
			t.Error("a plan without segments")
		}
		m.Find(3, func(keymap.Keysym) bool { return false })
		m.FindNow(2, 0xff, func(keymap.Keysym) bool { return false })
	})
}
