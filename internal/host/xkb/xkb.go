// Package xkb knows the names of the keyboard layouts that X11 guests have, so
// that a misspelt one is refused before there is a machine. The guest has the
// last word: it compiles the layout.
package xkb

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// layouts is a line for each layout: its name, a colon, its variants. The names
// are those of xkeyboard-config 2.35, the one of Debian 12.
//
//go:embed layouts.txt
var layouts string

// Check reports a keyboard, "layout" or "layout:variant", that no guest has; the
// error lists what there is instead. An empty one is the default.
func Check(keyboard string) error {
	if keyboard == "" {
		return nil
	}
	layout, variant, _ := strings.Cut(keyboard, ":")
	var names []string
	for line := range strings.Lines(layouts) {
		name, variants, _ := strings.Cut(strings.TrimSpace(line), ":")
		names = append(names, name)
		if name != layout {
			continue
		}
		known := strings.Fields(variants)
		if variant == "" || len(known) == 0 || slices.Contains(known, variant) {
			return nil
		}
		return fmt.Errorf("layout %s has no variant %q; it has %s", layout, variant, strings.Join(known, " "))
	}
	return fmt.Errorf("no layout %q; there are %s", layout, strings.Join(names, " "))
}
