package keymap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode"
	"unicode/utf8"
)

// ErrUntypable says that a text holds something no key stands for.
var ErrUntypable = errors.New("text that cannot be typed")

// ErrNoSpare says that the layout lacks a character and has no free key.
var ErrNoSpare = errors.New("no spare key for a character that the layout lacks")

// Assignment gives a spare key a symbol.
type Assignment struct {
	Code byte
	Sym  Keysym
}

// Segment is a part of a text that one state of the spare keys can type.
type Segment struct {
	Assign  []Assignment // to be made before the strokes
	Strokes []Stroke
	// Overwrites says that Assign takes keys that earlier strokes used: their
	// receiver must have read them first.
	Overwrites bool
}

// Spares are the keys that are lent to characters of no key, and to whom. The
// zero value lends nothing. It is not safe for concurrent use.
type Spares struct {
	codes []byte // least recently used first
	syms  map[byte]Keysym
}

// NewSpares lends the given keys.
func NewSpares(codes []byte) *Spares {
	return &Spares{codes: append([]byte(nil), codes...), syms: map[byte]Keysym{}}
}

// Clone is a copy to try something on.
func (s *Spares) Clone() *Spares {
	return &Spares{codes: slices.Clone(s.codes), syms: maps.Clone(s.syms)}
}

// Lent lists the keys with a symbol of ours.
func (s *Spares) Lent() map[byte]Keysym {
	if s == nil {
		return nil
	}
	return s.syms
}

// Find returns the key that holds sym.
func (s *Spares) Find(sym Keysym) (byte, bool) {
	for code, have := range s.syms {
		if have == sym {
			return code, true
		}
	}
	return 0, false
}

// use marks a key as just used.
func (s *Spares) use(code byte) {
	for i, c := range s.codes {
		if c == code {
			s.codes = append(append(s.codes[:i:i], s.codes[i+1:]...), code)
			return
		}
	}
}

// take lends the least recently used key that is not pinned; overwrites says
// that it was lent before.
func (s *Spares) take(sym Keysym, pinned map[byte]bool) (code byte, overwrites, ok bool) {
	for _, c := range s.codes {
		if pinned[c] {
			continue
		}
		_, overwrites = s.syms[c]
		s.syms[c] = sym
		s.use(c)
		return c, overwrites, true
	}
	return 0, false, false
}

// CheckText says whether every character of text can be typed at all: valid
// UTF-8, and no control characters except newline, carriage return and tab.
func CheckText(text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("%w: it is not valid UTF-8", ErrUntypable)
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			return fmt.Errorf("%w: control character %U; send it as a key", ErrUntypable, r)
		}
	}
	return nil
}

// Runes splits text into what is typed: "\r\n" and "\r" count as "\n".
func Runes(text string) []rune {
	rs := make([]rune, 0, len(text))
	var last rune
	for _, r := range text {
		if r == '\n' && last == '\r' {
			last = r
			continue
		}
		last = r
		if r == '\r' {
			r = '\n'
		}
		rs = append(rs, r)
	}
	return rs
}

// Plan types runes on m while its group is group. Characters that the layout
// lacks get keys of spares, which it updates: all different ones of the text
// at once where there are enough, else in several segments.
func Plan(m *Map, group byte, spares *Spares, runes []rune) ([]Segment, error) {
	p := planner{m: m, group: group, spares: spares, known: map[rune]Stroke{}, pinned: map[byte]bool{}}
	p.segs = []Segment{{}}
	for _, r := range runes {
		st, err := p.stroke(r)
		if err != nil {
			return nil, err
		}
		last := &p.segs[len(p.segs)-1]
		last.Strokes = append(last.Strokes, st)
	}
	return p.segs, nil
}

type planner struct {
	m      *Map
	group  byte
	spares *Spares
	known  map[rune]Stroke // found in the layout
	pinned map[byte]bool   // spare keys that this segment uses
	segs   []Segment
}

func (p *planner) stroke(r rune) (Stroke, error) {
	if st, ok := p.known[r]; ok {
		return st, nil
	}
	want := FromRune(r)
	lent := p.spares.Lent()
	st, ok := p.m.findFree(p.group, lent, func(s Keysym) bool { return Same(s, want) })
	if ok {
		p.known[r] = st
		return st, nil
	}
	if code, ok := p.spares.Find(want); ok {
		p.pinned[code] = true
		p.spares.use(code)
		return Stroke{Code: code, Group: p.group}, nil
	}
	code, over, ok := p.spares.take(want, p.pinned)
	if !ok {
		if len(p.spares.codes) == 0 {
			return Stroke{}, fmt.Errorf("plan %q (%U): %w", r, r, ErrNoSpare)
		}
		p.pinned = map[byte]bool{}
		p.segs = append(p.segs, Segment{})
		code, over, _ = p.spares.take(want, p.pinned)
	}
	p.pinned[code] = true
	last := &p.segs[len(p.segs)-1]
	last.Assign = append(last.Assign, Assignment{Code: code, Sym: want})
	last.Overwrites = last.Overwrites || over
	return Stroke{Code: code, Group: p.group}, nil
}

// findFree is Find without the keys lent to others.
func (m *Map) findFree(group byte, lent map[byte]Keysym, ok func(Keysym) bool) (Stroke, bool) {
	if len(lent) == 0 {
		return m.Find(group, ok)
	}
	clean := *m
	for code := range lent {
		clean.keys[code] = key{}
	}
	return clean.Find(group, ok)
}

// Adopt counts keys as lent, with the symbols they have.
func (s *Spares) Adopt(lent map[byte]Keysym) {
	for code, sym := range lent {
		s.syms[code] = sym
		if !slices.Contains(s.codes, code) {
			s.codes = append(s.codes, code)
		}
	}
}

// Lend gives sym a key: the one that has it, else the least recently used.
// overwrites says that the key had another symbol of ours. ErrNoSpare when
// there is none.
func (s *Spares) Lend(sym Keysym) (code byte, overwrites bool, err error) {
	if code, ok := s.Find(sym); ok {
		s.use(code)
		return code, false, nil
	}
	code, overwrites, ok := s.take(sym, nil)
	if !ok {
		return 0, false, ErrNoSpare
	}
	return code, overwrites, nil
}
