package display

import "unicode/utf8"

// CompoundText decodes COMPOUND_TEXT (the X Consortium's encoding of window
// titles by old programs) as far as titles use it: Latin-1 and UTF-8 stretches
// exactly, characters of other sets as U+FFFD. It never fails.
func CompoundText(raw []byte) string {
	const escape = 0x1b
	var (
		out  []rune
		utf  bool // within ESC % G … ESC % @
		wide bool // the left half holds a set of two bytes a character
	)
	for len(raw) > 0 {
		if raw[0] == escape {
			seq := escapeLen(raw)
			switch string(raw[1:seq]) {
			case "%G":
				utf = true
			case "%@":
				utf = false
			default: // ESC $ … switches to a wide set, other sets are narrow
				wide = seq > 2 && raw[1] == '$'
			}
			raw = raw[seq:]
			continue
		}
		n := 1
		r := rune(raw[0])
		switch {
		case utf:
			r, n = utf8.DecodeRune(raw)
		case wide && r > ' ':
			r, n = utf8.RuneError, min(2, len(raw))
		}
		out = append(out, r)
		raw = raw[n:]
	}
	return string(out)
}

// escapeLen is the length of the escape sequence that raw begins with:
// intermediate bytes (0x20 to 0x2f) and a final one.
func escapeLen(raw []byte) int {
	n := 1
	for n < len(raw) && raw[n] >= 0x20 && raw[n] <= 0x2f {
		n++
	}
	return min(n+1, len(raw))
}
