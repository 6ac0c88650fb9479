package xkb_test

import (
	"testing"

	"github.com/deskfork/deskfork/internal/guesthelper/xkb"
	"github.com/deskfork/deskfork/pkg/guest"
)

func TestParseNames(t *testing.T) {
	for raw, want := range map[string]guest.Keyboard{
		"evdev\x00pc105\x00de\x00nodeadkeys\x00\x00": {Layout: "de", Variant: "nodeadkeys"},
		"evdev\x00pc105\x00us,ru\x00,\x00":           {Layout: "us,ru", Variant: ","},
		"evdev\x00pc105\x00us":                       {Layout: "us"},
		"evdev":                                      {},
		"":                                           {},
	} {
		if got := xkb.ParseNames([]byte(raw)); got != want {
			t.Errorf("%q: %+v", raw, got)
		}
	}
}
