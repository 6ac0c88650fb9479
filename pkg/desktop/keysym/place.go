package keysym

import (
	"fmt"
	"sync"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// usStrokes maps the printable ASCII characters to keys of a US keyboard.
// Read-only once made.
var usStrokes = sync.OnceValue(func() map[rune]Stroke {
	rows := []struct {
		first         desktop.Keycode
		lower, higher string
	}{
		{0x02, "1234567890-=", "!@#$%^&*()_+"},
		{0x10, "qwertyuiop[]", "QWERTYUIOP{}"},
		{0x1e, "asdfghjkl;'`", "ASDFGHJKL:\"~"},
		{0x2b, "\\zxcvbnm,./", "|ZXCVBNM<>?"},
		{0x39, " ", ""},
	}
	m := map[rune]Stroke{}
	for _, row := range rows {
		for i, r := range row.lower {
			code := row.first + desktop.Keycode(i)
			m[r] = Stroke{Key: desktop.Key{Sym: runeSym(r), Code: code}}
		}
		for i, r := range row.higher {
			code := row.first + desktop.Keycode(i)
			m[r] = Stroke{Key: desktop.Key{Sym: runeSym(r), Code: code}, Shift: true}
		}
	}
	return m
})

// placed maps X11 names to scancodes, in QEMU's numbers: set 1, with 0x80
// added to those that follow 0xe0. Keys that QEMU 7.2 does not have (F13 and
// above among them) are left out.
func placed() map[string]desktop.Keycode {
	m := map[string]desktop.Keycode{
		"Escape": 0x01, "BackSpace": 0x0e, "Tab": 0x0f, "ISO_Left_Tab": 0x0f, "Return": 0x1c,
		"Control_L": 0x1d, "Control_R": 0x9d, "Shift_L": 0x2a, "Shift_R": 0x36,
		"Alt_L": 0x38, "Alt_R": 0xb8, "ISO_Level3_Shift": 0xb8, "Mode_switch": 0xb8,
		"Super_L": 0xdb, "Super_R": 0xdc, "Meta_L": 0xdb, "Meta_R": 0xdc, "Hyper_L": 0xdb, "Hyper_R": 0xdc,
		"Menu": 0xdd, "Caps_Lock": 0x3a, "Num_Lock": 0x45, "Scroll_Lock": 0x46,
		"Print": 0xb7, "Sys_Req": 0x54, "Pause": 0xc6, "Break": 0xc6,
		"Insert": 0xd2, "Delete": 0xd3, "Home": 0xc7, "End": 0xcf, "Prior": 0xc9, "Next": 0xd1,
		"Up": 0xc8, "Down": 0xd0, "Left": 0xcb, "Right": 0xcd,
		"F11": 0x57, "F12": 0x58,
		"KP_Enter": 0x9c, "KP_Divide": 0xb5, "KP_Multiply": 0x37, "KP_Subtract": 0x4a, "KP_Add": 0x4e,
		"KP_Decimal": 0x53, "KP_Delete": 0x53, "KP_Separator": 0x7e, "KP_Equal": 0x59,
		"KP_Home": 0x47, "KP_Up": 0x48, "KP_Prior": 0x49, "KP_Left": 0x4b, "KP_Begin": 0x4c,
		"KP_Right": 0x4d, "KP_End": 0x4f, "KP_Down": 0x50, "KP_Next": 0x51, "KP_Insert": 0x52,
		"Henkan_Mode": 0x79, "Muhenkan": 0x7b, "Hiragana_Katakana": 0x70,
		"XF86AudioMute": 0xa0, "XF86AudioLowerVolume": 0xae, "XF86AudioRaiseVolume": 0xb0,
		"XF86AudioPlay": 0xa2, "XF86AudioStop": 0xa4, "XF86AudioPrev": 0x90, "XF86AudioNext": 0x99,
		"XF86Calculator": 0xa1, "XF86Mail": 0xec, "XF86HomePage": 0xb2, "XF86Search": 0xe5,
		"XF86Favorites": 0xe6, "XF86Reload": 0xe7, "XF86Refresh": 0xe7, "XF86Stop": 0xe8,
		"XF86Forward": 0xe9, "XF86Back": 0xea, "XF86MyComputer": 0xeb, "XF86AudioMedia": 0xed,
		"XF86PowerOff": 0xde, "XF86Sleep": 0xdf, "XF86WakeUp": 0xe3,
	}
	for i := range 10 {
		m[fmt.Sprintf("F%d", i+1)] = desktop.Keycode(0x3b + i)
	}
	for i, code := range []desktop.Keycode{0x52, 0x4f, 0x50, 0x51, 0x4b, 0x4c, 0x4d, 0x47, 0x48, 0x49} {
		m[fmt.Sprintf("KP_%d", i)] = code
	}
	return m
}
