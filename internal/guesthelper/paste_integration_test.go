//go:build integration

package guesthelper_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/guest"
)

// lookingEditor reads whatever is new in the clipboard, as editors with a history
// of it do, and takes its time to paste.
var lookingEditor = strings.Replace(gtkEditor, "w.add(v)", `
from gi.repository import Gdk, GLib
clipboard = Gtk.Clipboard.get(Gdk.SELECTION_CLIPBOARD)
clipboard.connect("owner-change", lambda c, e: c.request_text(lambda c, s: None))
def key(v, e):
    if e.keyval == Gdk.KEY_v and e.state & Gdk.ModifierType.CONTROL_MASK:
        GLib.timeout_add(700, lambda: v.emit("paste-clipboard"))
        return True
v.connect("key-press-event", key)
w.add(v)`, 1)

// TestPasteWhereOthersLook: what a program reads of a new clipboard is not taken
// for its paste, which comes later.
func TestPasteWhereOthersLook(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "looks.txt")
	x.run(t, "/usr/bin/python3", "-c", lookingEditor, file)
	p.focus(p.window("gtk-editor"))
	p.setText("former")
	p.play(guest.InputEvent{Kind: "paste", Text: "lent ✓"})
	expectFile(t, file, "lent ✓")
	if got := p.getText(); got != "former" {
		t.Errorf("the clipboard afterwards: %q", got)
	}
}
