//go:build integration

package e2e_test

import (
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
)

func TestWindows(t *testing.T) {
	d := lend(t)
	// A shell would set a title of its own.
	d.launch(t, "xterm", "-T", "window-under-test", "-geometry", "60x15+100+100", "-e", "cat")
	w := d.window(t, "xterm", func(w api.Window) bool { return w.Title == "window-under-test" })
	if w.PID == 0 || w.Width < 200 || w.Height < 100 {
		t.Errorf("window = %+v", w)
	}
	current := func() api.Window {
		return d.window(t, "xterm", func(x api.Window) bool { return x.ID == w.ID })
	}
	ctx := t.Context()
	if err := d.Windows().Do(ctx, w.ID, api.WindowOp{Op: "move", X: 222, Y: 133}); err != nil {
		t.Fatal(err)
	}
	if now := current(); now.X != 222 || now.Y != 133 {
		t.Errorf("after move: %+v", now)
	}
	if err := d.Windows().Do(ctx, w.ID, api.WindowOp{Op: "maximize"}); err != nil {
		t.Fatal(err)
	}
	if now := current(); !now.Maximized || now.Width < 1000 {
		t.Errorf("after maximize: %+v", now)
	}
	if err := d.Windows().Do(ctx, w.ID, api.WindowOp{Op: "restore"}); err != nil {
		t.Fatal(err)
	}
	if err := d.Windows().Do(ctx, w.ID, api.WindowOp{Op: "resize", Width: 500, Height: 300}); err != nil {
		t.Fatal(err)
	}
	if now := current(); now.Maximized || now.Width < 450 || now.Width > 520 {
		t.Errorf("after resize: %+v", now)
	}
	d.focus(t, w)
	d.shut(t, w)
	code(t, d.Windows().Focus(ctx, w.ID), api.CodeNotFound)
}

func TestClipboard(t *testing.T) {
	d := lend(t)
	for name, c := range map[string]struct{ mime, data string }{
		"text":  {"text/plain", "Grüße, мир, 世界 🦊\n"},
		"html":  {"text/html", "<b>fett &amp; schön</b>"},
		"image": {"image/png", "\x89PNG\r\n\x1a\nnot a picture, but bytes are bytes\x00\xff"},
		"large": {"text/plain", strings.Repeat("0123456789abcdef", 200_000)},
	} {
		t.Run(name, func(t *testing.T) {
			if err := d.Clipboard().Set(t.Context(), c.mime, []byte(c.data)); err != nil {
				t.Fatal(err)
			}
			got, err := d.Clipboard().Get(t.Context(), c.mime)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.data {
				t.Errorf("got %d bytes, want %d", len(got), len(c.data))
			}
		})
	}
}
