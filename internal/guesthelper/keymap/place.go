package keymap

import "strings"

// rows are the keys of a US keyboard by their first keycode, as the Linux
// drivers number them.
var rows = [...]struct {
	first byte
	keys  string
}{{10, "1234567890"}, {24, "qwertyuiop"}, {38, "asdfghjkl"}, {52, "zxcvbnm"}}

// Place is the key that has sym on a US keyboard; false for other than letters
// and digits.
func Place(sym Keysym) (byte, bool) {
	if sym > 0x7e {
		return 0, false
	}
	for _, r := range rows {
		if i := strings.IndexByte(r.keys, byte(sym)|0x20); i >= 0 && sym >= 0x30 {
			return r.first + byte(i), true
		}
	}
	return 0, false
}
