package display_test

import (
	"errors"
	"io"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

func TestText(t *testing.T) {
	for raw, want := range map[string]string{
		"plain": "plain", "ü漢": "ü漢", "\xfc": "ü", "a\x00b": "a", "": "",
	} {
		if got := display.Text([]byte(raw)); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func TestCompoundText(t *testing.T) {
	for raw, want := range map[string]string{
		"plain":                                "plain",
		"Fenster \xe4":                         "Fenster ä",
		"a\x1b%Gü漢😀\x1b%@b":                    "aü漢😀b",
		"\x1b-A\xe4":                           "ä",
		"x\x1b$(B4A\x1b(By":                    "x\ufffdy",
		"\x1b":                                 "",
		"\x1b$":                                "",
		"\x1b%G\xff\x1b%@":                     "\ufffd",
		"two \x1b$(B4A4A\x1b(B and \x1b-A\xf6": "two \ufffd\ufffd and ö",
	} {
		if got := display.CompoundText([]byte(raw)); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("a\x1b%G\xc3\xbc\x1b%@b"))
	f.Add([]byte("\x1b$(B4"))
	f.Fuzz(func(t *testing.T, in []byte) {
		if s := display.CompoundText(in); !utf8.ValidString(s) {
			t.Errorf("compound text became %q", s)
		}
		if s := display.Text(in); !utf8.ValidString(s) {
			t.Errorf("text became %q", s)
		}
		if vs := display.Cards(in); len(vs) != len(in)/4 {
			t.Errorf("%d values of %d bytes", len(vs), len(in))
		}
	})
}

func TestCards(t *testing.T) {
	if diff := cmp.Diff([]uint32{1, 0x04030201}, display.Cards([]byte{1, 0, 0, 0, 1, 2, 3, 4, 9})); diff != "" {
		t.Error(diff)
	}
}

func TestWrap(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want guest.Code
	}{
		"lost connection": {io.EOF, guest.CodeNoDisplay},
		"gone window":     {xproto.WindowError{}, guest.CodeNotFound},
		"gone drawable":   {xproto.DrawableError{}, guest.CodeNotFound},
		"held by another": {xproto.AccessError{}, guest.CodeBusy},
	} {
		t.Run(name, func(t *testing.T) {
			if err := display.Wrap(c.err, "do it"); !errors.Is(err, &guest.Error{Code: c.want}) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := display.Wrap(nil, "do it"); err != nil {
		t.Errorf("no error became %v", err)
	}
	var known *guest.Error
	if err := display.Wrap(xproto.ValueError{}, "do it"); err == nil || errors.As(err, &known) {
		t.Errorf("another error became %v", err)
	}
}
