package keysym

import (
	"fmt"
	"strings"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Chord parses keys that are held together, joined by "+": "ctrl+shift+t",
// "ctrl++", "ctrl+-", "+", "a". They are pressed in this order and released in
// reverse. Next to another key a single ASCII letter names the key, not the
// character, so "CTRL+A" is ctrl+a and Shift must be named; alone, "A" and "!"
// bring their Shift.
func Chord(s string) ([]desktop.Key, error) {
	names := splitChord(s)
	if len(names) == 0 {
		return nil, fmt.Errorf("parse chord %q: %w", s, &UnknownError{Name: s})
	}
	return Keys(names)
}

// Keys is Chord for names that come as a list, each of which may be a chord.
func Keys(names []string) ([]desktop.Key, error) {
	var flat []string
	for _, n := range names {
		parts := splitChord(n)
		if len(parts) == 0 {
			return nil, fmt.Errorf("parse chord %q: %w", n, &UnknownError{Name: n})
		}
		flat = append(flat, parts...)
	}
	keys := make([]desktop.Key, 0, len(flat)+1)
	shifted := false
	for _, n := range flat {
		if len(flat) > 1 && len(n) == 1 && n[0] >= 'A' && n[0] <= 'Z' {
			n = strings.ToLower(n)
		}
		k, err := Parse(n)
		if err != nil {
			return nil, fmt.Errorf("parse chord %q: %w", strings.Join(names, "+"), err)
		}
		shifted = shifted || needsShift(n)
		keys = append(keys, k)
	}
	if shifted && !holds(keys, ShiftL) && !holds(keys, ShiftR) {
		keys = append([]desktop.Key{{Sym: ShiftL, Code: 0x2a}}, keys...)
	}
	return keys, nil
}

// splitChord splits at "+", where a "+" that ends the chord or follows another
// "+" is the key itself.
func splitChord(s string) []string {
	if strings.TrimSpace(s) == "" {
		if s != "" && strings.Trim(s, " ") == "" {
			return []string{" "}
		}
		if s != "" { // "\n", "\t" and the like
			return []string{s}
		}
		return nil
	}
	var names []string
	rest := strings.TrimSpace(s)
	for {
		i := strings.IndexByte(rest, '+')
		if i == 0 {
			i = 1 + strings.IndexByte(rest[1:], '+')
			if i == 0 {
				i = len(rest)
			}
		}
		if i < 0 {
			i = len(rest)
		}
		name := strings.TrimSpace(rest[:i])
		if name == "" {
			return nil
		}
		names = append(names, name)
		if i == len(rest) {
			return names
		}
		rest = strings.TrimSpace(rest[i+1:])
		if rest == "" { // "ctrl+": nothing follows
			return nil
		}
	}
}

// needsShift tells whether a name is a character of a US key's upper level.
func needsShift(name string) bool {
	r := []rune(name)
	return len(r) == 1 && usStrokes()[r[0]].Shift
}

func holds(keys []desktop.Key, sym desktop.Keysym) bool {
	for _, k := range keys {
		if k.Sym == sym {
			return true
		}
	}
	return false
}
