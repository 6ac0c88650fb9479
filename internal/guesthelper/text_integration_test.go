//go:build integration

package guesthelper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/guest"
)

// gtkEditor is a GTK text view that writes its text to a file whenever it changes.
const gtkEditor = `
import gi, os, sys
gi.require_version("Gtk", "3.0")
from gi.repository import Gtk
w = Gtk.Window(title="gtk-editor")
v = Gtk.TextView()
b = v.get_buffer()
def save(*a):
    s = b.get_text(b.get_start_iter(), b.get_end_iter(), True)
    open(sys.argv[1] + ".new", "w", newline="").write(s)
    os.rename(sys.argv[1] + ".new", sys.argv[1])
b.connect("changed", save)
w.add(v); w.set_default_size(500, 300); w.show_all()
w.connect("destroy", Gtk.main_quit)
Gtk.main()
`

// texts are what must arrive exactly.
var texts = map[string]string{
	"ascii":    "The quick brown fox! \"#$%&'()*+,-./0189:;<=>?@[\\]^_`{|}~",
	"umlauts":  "äöüÄÖÜß é è ñ ç å ø € § ´ ¨",
	"cyrillic": "Привет, мир! Ёжик ЩЪЭЮЯ щъэюя",
	"cjk":      "漢字かなカナ 한국어 中文字符测试",
	"emoji":    "😀🚀👩‍💻🇩🇪 done ❤️",
	"lines":    "first\n\tsecond\n\nfourth\ttab",
	"mixed":    "aЖ漢😀é\n~^`",
}

var layouts = []guest.Keyboard{{Layout: "us"}, {Layout: "de"}, {Layout: "ru"}, {Layout: "fr"}, {Layout: "us,ru"}}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(b)
}

func expectFile(t *testing.T, path, want string) {
	t.Helper()
	var got string
	same := func() bool { got = read(t, path); return got == want }
	defer func() {
		if t.Failed() {
			t.Log(cmp.Diff(want, got))
		}
	}()
	eventually(t, "text in "+filepath.Base(path), same)
}

func TestTextIntoGTK(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "gtk.txt")
	x.run(t, "/usr/bin/python3", "-c", gtkEditor, file)
	p.focus(p.window("gtk-editor"))
	for _, k := range layouts {
		t.Run(k.Layout, func(t *testing.T) {
			p.call(guest.OpSetKeyboard, k, nil, nil)
			for name, text := range texts {
				t.Run(name, func(t *testing.T) {
					eff := p.text(text)
					expectFile(t, file, text)
					t.Logf("%s %s", eff.Effect, eff.How)
					p.chord(0xffe3, 'a')
					p.chord(0xffff)
					expectFile(t, file, "")
				})
			}
		})
	}
}

func TestTextIntoXterm(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "xterm.txt")
	x.run(t, "xterm", "-u8", "-e", "sh", "-c", "stty raw -echo; exec cat > "+file)
	p.focus(p.window("xterm"))
	eventually(t, "cat runs", func() bool { _, err := os.Stat(file); return err == nil })
	sofar := ""
	for _, k := range layouts {
		t.Run(k.Layout, func(t *testing.T) {
			p.call(guest.OpSetKeyboard, k, nil, nil)
			for name, text := range texts {
				t.Run(name, func(t *testing.T) {
					p.text(text)
					sofar += strings.ReplaceAll(text, "\n", "\r")
					expectFile(t, file, sofar)
				})
			}
		})
	}
	// Its own selection is lent to it, and comes back.
	x.run(t, "sh", "-c", "printf marked | xclip -quiet -i -selection primary")
	primary := func() string {
		return string(x.output(t, nil, "sh", "-c", "xclip -o -selection primary; true"))
	}
	eventually(t, "something is marked", func() bool { return primary() == "marked" })
	long := strings.Repeat("eine lange Zeile, длинная строка 漢字 😀\n", 40)
	eff := p.text(long)
	expectFile(t, file, sofar+strings.ReplaceAll(long, "\n", "\r"))
	if eff.How != guest.TextByPaste {
		t.Errorf("long text: %+v", eff)
	}
	if got := primary(); got != "marked" {
		t.Errorf("marked is %q", got)
	}
}

func TestTextIntoMousepad(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "pad.txt")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	x.run(t, "mousepad", "--disable-server", file)
	p.focus(p.window("mousepad"))
	want := "Grüße, Привет 漢字 😀\n\tdone\n"
	p.text(want)
	p.chord(0xffe3, 's')
	expectFile(t, file, want)
	long := strings.Repeat("long line ä Ж\n", 40)
	p.chord(0xffe3, 'a')
	eff := p.text(long)
	p.chord(0xffe3, 's')
	expectFile(t, file, long)
	if eff.How != guest.TextByPaste || eff.Effect != guest.EffectConfirmed {
		t.Errorf("long text: %+v", eff)
	}
}

func TestTextIntoTerminal(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "term.txt")
	x.run(t, "xfce4-terminal", "--disable-server", "-x", "sh", "-c", "stty raw -echo; exec cat > "+file)
	p.focus(p.window("terminal"))
	eventually(t, "cat runs", func() bool { _, err := os.Stat(file); return err == nil })
	text := texts["mixed"]
	p.text(text)
	expectFile(t, file, strings.ReplaceAll(text, "\n", "\r"))
	long := strings.Repeat("a longer line, with ä Ж 漢 😀\nshort\n", 12)
	eff := p.text(long)
	expectFile(t, file, strings.ReplaceAll(text+long, "\n", "\r"))
	if eff.How != guest.TextByPaste {
		t.Errorf("long text: %+v", eff)
	}
	if n := len(p.windows()); n != 1 {
		t.Errorf("%d windows: the terminal asks something", n)
	}
}
