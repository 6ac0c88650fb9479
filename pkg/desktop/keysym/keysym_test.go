package keysym_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/keysym"
)

func TestParse(t *testing.T) {
	tests := []struct {
		names string // separated by blanks; all are the same key
		want  desktop.Key
	}{
		{"Return return RETURN Enter ENTER enter", desktop.Key{Sym: 0xff0d, Code: 0x1c}},
		{"NumpadEnter KP_Enter kp_enter", desktop.Key{Sym: 0xff8d, Code: 0x9c}},
		{"Escape esc ESC", desktop.Key{Sym: 0xff1b, Code: 0x01}},
		{"Page_Down PageDown pagedown PAGEDOWN page_down pgdn Next", desktop.Key{Sym: 0xff56, Code: 0xd1}},
		{"Page_Up pageup pgup Prior", desktop.Key{Sym: 0xff55, Code: 0xc9}},
		{"Left left ArrowLeft ARROWLEFT leftarrow", desktop.Key{Sym: 0xff51, Code: 0xcb}},
		{"BackSpace Backspace BACKSPACE backspace", desktop.Key{Sym: 0xff08, Code: 0x0e}},
		{"Delete del DELETE delete", desktop.Key{Sym: 0xffff, Code: 0xd3}},
		{"Control_L ctrl CTRL Control control ControlLeft ctrl_l", desktop.Key{Sym: 0xffe3, Code: 0x1d}},
		{"Shift_L shift SHIFT ShiftLeft shift_l", desktop.Key{Sym: 0xffe1, Code: 0x2a}},
		{"Alt_L alt ALT option OPTION AltLeft alt_l ⌥", desktop.Key{Sym: 0xffe9, Code: 0x38}},
		{"Super_L win cmd command super meta Meta MetaLeft OSLeft windows ⌘", desktop.Key{Sym: 0xffeb, Code: 0xdb}},
		{"AltGraph alt_gr altgr ISO_Level3_Shift", desktop.Key{Sym: 0xfe03, Code: 0xb8}},
		{"CapsLock caps_lock Caps_Lock", desktop.Key{Sym: 0xffe5, Code: 0x3a}},
		{"print_screen PrintScreen Print", desktop.Key{Sym: 0xff61, Code: 0xb7}},
		{"space SPACE Spacebar", desktop.Key{Sym: 0x20, Code: 0x39}},
		{"F1 f1", desktop.Key{Sym: 0xffbe, Code: 0x3b}},
		{"F12 f12", desktop.Key{Sym: 0xffc9, Code: 0x58}},
		{"f24 F24", desktop.Key{Sym: 0xffd5}},
		{"KeyA a", desktop.Key{Sym: 'a', Code: 0x1e}},
		{"Digit1 1", desktop.Key{Sym: '1', Code: 0x02}},
		{"Numpad7 KP_7", desktop.Key{Sym: 0xffb7, Code: 0x47}},
		{"minus -", desktop.Key{Sym: '-', Code: 0x0c}},
		{"plus +", desktop.Key{Sym: '+', Code: 0x0d}},
		{"BracketLeft bracketleft [", desktop.Key{Sym: '[', Code: 0x1a}},
		{"XF86AudioMute AudioMute AudioVolumeMute volume_mute", desktop.Key{Sym: 0x1008ff12, Code: 0xa0}},
		{"adiaeresis Adiaeresis ä U00E4", desktop.Key{Sym: 0xe4}}, // exact "Adiaeresis" is checked below
		{"д", desktop.Key{Sym: 0x1000434}},
		{"Cyrillic_de", desktop.Key{Sym: 0x6c4}},
		{"Greek_alpha", desktop.Key{Sym: 0x7e1}},
		{"lstroke", desktop.Key{Sym: 0x1b3}},
		{"€ U20AC U+20AC", desktop.Key{Sym: 0x10020ac}},
		{"EuroSign", desktop.Key{Sym: 0x20ac}},
		{"😀 U1F600", desktop.Key{Sym: 0x101f600}},
		{"0xff0d", desktop.Key{Sym: 0xff0d, Code: 0x1c}},
		{"~", desktop.Key{Sym: '~', Code: 0x29}},
	}
	for _, tt := range tests {
		for name := range strings.FieldsSeq(tt.names) {
			t.Run(name, func(t *testing.T) {
				if name == "Adiaeresis" {
					name = "ADIAERESIS"
				}
				got, err := keysym.Parse(name)
				if err != nil || got != tt.want {
					t.Errorf("Parse(%q) = %#x, %v; want %#x", name, got, err, tt.want)
				}
			})
		}
	}
}

func TestParseExactCaseWins(t *testing.T) {
	for name, want := range map[string]desktop.Keysym{"Adiaeresis": 0xc4, "adiaeresis": 0xe4, "A": 'A', "Cyrillic_DE": 0x6e4} {
		if got, err := keysym.Parse(name); err != nil || got.Sym != want {
			t.Errorf("Parse(%q) = %#x, %v; want %#x", name, got.Sym, err, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	tests := []struct{ name, suggestion string }{
		{"pagdown", "Page_Down"},
		{"Ctlr", "ctl"},
		{"Retrun", "return"},
		{"xyzzyplugh", ""},
		{"", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := keysym.Parse(tt.name)
			var unknown *keysym.UnknownError
			if !errors.Is(err, desktop.ErrUnknownKey) || !errors.As(err, &unknown) {
				t.Fatalf("Parse(%q): %v, want an UnknownError", tt.name, err)
			}
			if !strings.EqualFold(unknown.Suggestion, tt.suggestion) {
				t.Errorf("suggests %q, want %q", unknown.Suggestion, tt.suggestion)
			}
		})
	}
}

func TestChord(t *testing.T) {
	const shift, ctrl = keysym.ShiftL, keysym.ControlL
	tests := []struct {
		chord string
		want  []desktop.Keysym
	}{
		{"ctrl+shift+t", []desktop.Keysym{ctrl, shift, 't'}},
		{"CTRL+A", []desktop.Keysym{ctrl, 'a'}},
		{"ctrl + c", []desktop.Keysym{ctrl, 'c'}},
		{"ctrl++", []desktop.Keysym{shift, ctrl, '+'}},
		{"ctrl+-", []desktop.Keysym{ctrl, '-'}},
		{"ctrl+plus", []desktop.Keysym{ctrl, '+'}},
		{"+", []desktop.Keysym{shift, '+'}},
		{"A", []desktop.Keysym{shift, 'A'}},
		{"a", []desktop.Keysym{'a'}},
		{"!", []desktop.Keysym{shift, '!'}},
		{"shift+!", []desktop.Keysym{shift, '!'}},
		{" ", []desktop.Keysym{' '}},
		{"\n", []desktop.Keysym{keysym.Return}},
		{"alt+F4", []desktop.Keysym{keysym.AltL, 0xffc1}},
		{"a+++b", []desktop.Keysym{shift, 'a', '+', 'b'}},
		{"super", []desktop.Keysym{keysym.SuperL}},
		{"ctrl+ß", []desktop.Keysym{ctrl, 0xdf}},
	}
	for _, tt := range tests {
		t.Run(tt.chord, func(t *testing.T) {
			keys, err := keysym.Chord(tt.chord)
			if err != nil {
				t.Fatal(err)
			}
			var got []desktop.Keysym
			for _, k := range keys {
				got = append(got, k.Sym)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, bad := range []string{"", "ctrl+", "ctrl+nosuchkey", "+ctrl+"} {
		if keys, err := keysym.Chord(bad); !errors.Is(err, desktop.ErrUnknownKey) {
			t.Errorf("Chord(%q) = %v, %v; want ErrUnknownKey", bad, keys, err)
		}
	}
}

// Every printable ASCII character has a place, and no two share one on the
// same level.
func TestRuneCoversASCII(t *testing.T) {
	type level struct {
		code  desktop.Keycode
		shift bool
	}
	seen := map[level]rune{}
	for r := rune(0x20); r < 0x7f; r++ {
		s := keysym.Rune(r)
		if s.Key.Code == 0 || s.Key.Sym != desktop.Keysym(r) {
			t.Errorf("Rune(%q) = %+v", r, s)
		}
		l := level{s.Key.Code, s.Shift}
		if other, ok := seen[l]; ok {
			t.Errorf("%q and %q share %+v", r, other, l)
		}
		seen[l] = r
	}
	if s := keysym.Rune('ö'); s.Key != (desktop.Key{Sym: 0xf6}) || s.Shift {
		t.Errorf("Rune('ö') = %+v", s)
	}
}

func TestName(t *testing.T) {
	for sym, want := range map[desktop.Keysym]string{
		0xff0d: "Return", 'a': "a", 0x1f600 | 0x1000000: "U1F600", 0x12345: "0x12345", 0x1008ff12: "XF86AudioMute",
	} {
		if got := keysym.Name(sym); got != want {
			t.Errorf("Name(%#x) = %q, want %q", sym, got, want)
		}
	}
}

func FuzzChord(f *testing.F) {
	for _, s := range []string{"ctrl+shift+t", "ctrl++", "+", "", "a b", "😀+x", "\xff+", "U+FFFFFFFF", "0x0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		keys, err := keysym.Chord(s)
		if err != nil {
			if !errors.Is(err, desktop.ErrUnknownKey) {
				t.Fatalf("Chord(%q): %v is not ErrUnknownKey", s, err)
			}
			return
		}
		for _, k := range keys {
			if k.Sym == 0 {
				t.Fatalf("Chord(%q) = %v holds no key", s, keys)
			}
		}
	})
}
