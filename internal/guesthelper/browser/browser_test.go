package browser_test

import (
	"testing"

	"github.com/deskfork/deskfork/internal/guesthelper/browser"
	"github.com/deskfork/deskfork/pkg/guest"
)

func TestPage(t *testing.T) {
	for name, c := range map[string]struct {
		w    guest.Window
		want bool
	}{
		"Chromium of Debian":    {guest.Window{Class: "Chromium", Type: "normal"}, true},
		"Chromium of others":    {guest.Window{Class: "Chromium-browser", Type: "normal"}, true},
		"Firefox of Debian":     {guest.Window{Class: "firefox-esr", Type: "normal"}, true},
		"Chrome":                {guest.Window{Class: "Google-chrome", Type: "normal"}, true},
		"minimized":             {guest.Window{Class: "Chromium", Type: "normal", Minimized: true}, true},
		"a dialog of a browser": {guest.Window{Class: "Chromium", Type: "dialog"}, false},
		"another program":       {guest.Window{Class: "Mousepad", Title: "Chromium", Type: "normal"}, false},
		"no class":              {guest.Window{Type: "normal"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := browser.Page(c.w); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}
