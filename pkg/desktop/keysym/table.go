package keysym

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Keysyms that other packages name.
const (
	BackSpace      desktop.Keysym = 0xff08
	Tab            desktop.Keysym = 0xff09
	Return         desktop.Keysym = 0xff0d
	Escape         desktop.Keysym = 0xff1b
	Delete         desktop.Keysym = 0xffff
	Insert         desktop.Keysym = 0xff63
	NumLock        desktop.Keysym = 0xff7f
	ScrollLock     desktop.Keysym = 0xff14
	ShiftL         desktop.Keysym = 0xffe1
	ShiftR         desktop.Keysym = 0xffe2
	ControlL       desktop.Keysym = 0xffe3
	AltL           desktop.Keysym = 0xffe9
	SuperL         desktop.Keysym = 0xffeb
	HyperR         desktop.Keysym = 0xffee
	ISOLevel3Shift desktop.Keysym = 0xfe03
)

//go:embed x11.txt
var x11 string

type named struct {
	sym  desktop.Keysym
	name string // as the registry spells it
}

type table struct {
	exact  map[string]desktop.Keysym
	folded map[string]named // names in any case
	alias  map[string]desktop.Key
	names  map[desktop.Keysym]string
	codes  map[desktop.Keysym]desktop.Keycode
}

// tables is read-only once made.
var tables = sync.OnceValue(func() *table {
	t := &table{
		exact:  map[string]desktop.Keysym{},
		folded: map[string]named{},
		alias:  map[string]desktop.Key{},
		names:  map[desktop.Keysym]string{},
		codes:  map[desktop.Keysym]desktop.Keycode{},
	}
	for line := range strings.Lines(x11) {
		name, hex, ok := strings.Cut(strings.TrimSpace(line), " ")
		var v uint32
		if !ok || name == "#" || !parseHex(hex, &v) {
			continue
		}
		t.add(name, desktop.Keysym(v))
		if media, ok := strings.CutPrefix(name, "XF86"); ok {
			t.addFolded(media, desktop.Keysym(v))
		}
	}
	for r, s := range usStrokes() {
		t.codes[runeSym(r)] = s.Key.Code
	}
	for name, code := range placed() {
		t.codes[t.exact[name]] = code
	}
	for alias, name := range aliases() {
		sym, ok := t.exact[name]
		if !ok {
			sym = Rune([]rune(name)[0]).Key.Sym
		}
		t.alias[fold(alias)] = t.key(sym)
	}
	return t
})

func (t *table) add(name string, sym desktop.Keysym) {
	t.exact[name] = sym
	if _, ok := t.names[sym]; !ok {
		t.names[sym] = name
	}
	t.addFolded(name, sym)
}

func (t *table) addFolded(name string, sym desktop.Keysym) {
	f := fold(name)
	old, ok := t.folded[f]
	// Of Aacute and aacute the small letter is the key.
	if !ok || (strings.ToLower(name) == name && old.name != strings.ToLower(old.name)) {
		t.folded[f] = named{sym, name}
	}
}

func (t *table) key(sym desktop.Keysym) desktop.Key {
	return desktop.Key{Sym: sym, Code: t.codes[sym]}
}

// nearest returns the known name with the smallest edit distance, if it is
// small enough to be a slip.
func (t *table) nearest(folded string) string {
	if len(folded) < 2 {
		return ""
	}
	best, dist := "", max(1, len(folded)/3)+1
	try := func(candidate, shown string) {
		if abs(len(candidate)-len(folded)) > dist {
			return
		}
		d := distance(candidate, folded)
		if d < dist || (d == dist && best != "" && shown < best) {
			best, dist = shown, d
		}
	}
	for f, n := range t.folded {
		try(f, n.name)
	}
	for a := range t.alias {
		try(a, a)
	}
	return best
}

func abs(n int) int { return max(n, -n) }

// distance is Levenshtein's, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diag+cost)
			diag, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
