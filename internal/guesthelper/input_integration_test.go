//go:build integration

package guesthelper_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/guest"
)

// recorder is a GTK window that writes every key and button event to a file.
const recorder = `
import gi, sys
gi.require_version("Gtk", "3.0")
from gi.repository import Gtk, Gdk
f = open(sys.argv[1], "w", buffering=1)
w = Gtk.Window(title="recorder")
w.add_events(Gdk.EventMask.ALL_EVENTS_MASK & ~Gdk.EventMask.POINTER_MOTION_HINT_MASK)
w.connect("key-press-event", lambda w, e: f.write("key+ %s\n" % Gdk.keyval_name(e.keyval)))
w.connect("key-release-event", lambda w, e: f.write("key- %s\n" % Gdk.keyval_name(e.keyval)))
w.connect("button-press-event", lambda w, e: f.write("button+ %d\n" % e.button))
w.connect("button-release-event", lambda w, e: f.write("button- %d\n" % e.button))
w.connect("scroll-event", lambda w, e: f.write("scroll %s\n" % e.direction.value_nick))
w.set_default_size(600, 400); w.show_all(); Gtk.main()
`

func startRecorder(t *testing.T, x *xserver, p *peer) string {
	t.Helper()
	file := filepath.Join(x.home, "events.txt")
	x.run(t, "/usr/bin/python3", "-c", recorder, file)
	w := p.window("recorder")
	p.focus(w)
	p.play(guest.InputEvent{Kind: "move", X: w.X + 200, Y: w.Y + 200})
	return file
}

func TestButtons(t *testing.T) {
	x, p := desktop(t)
	file := startRecorder(t, x, p)
	var evs []guest.InputEvent
	want := ""
	for _, n := range []int{1, 2, 3, 8, 9} {
		evs = append(evs, guest.InputEvent{Kind: "button", Button: n, Down: true}, guest.InputEvent{Kind: "button", Button: n})
		want += fmt.Sprintf("button+ %d\nbutton- %d\n", n, n)
	}
	evs = append(evs, guest.InputEvent{Kind: "scroll", DY: 2}, guest.InputEvent{Kind: "scroll", DY: -1},
		guest.InputEvent{Kind: "scroll", DX: 1}, guest.InputEvent{Kind: "scroll", DX: -2})
	want += "scroll down\nscroll down\nscroll up\nscroll right\nscroll left\nscroll left\n"
	res := p.play(evs...)
	expectFile(t, file, want)
	if res.Done != len(evs) || len(res.Effects) != len(evs) {
		t.Errorf("played %d of %d", res.Done, len(evs))
	}
	for i := range 6 { // buttons 1 to 3 can be read back
		if res.Effects[i].Effect != guest.EffectConfirmed {
			t.Errorf("event %d is %s", i, res.Effects[i].Effect)
		}
	}
}

func TestPointer(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	for _, at := range []guest.Point{{X: 0, Y: 0}, {X: 1279, Y: 799}, {X: 17, Y: 501}} {
		res := p.play(guest.InputEvent{Kind: "move", X: at.X, Y: at.Y})
		var got guest.Point
		p.call(guest.OpPointer, nil, nil, &got)
		if got != at || res.Pointer != at || res.Effects[0].Effect != guest.EffectConfirmed {
			t.Errorf("moved to %v: %v, %+v", at, got, res)
		}
	}
	var res guest.InputResult
	_, err := p.try(guest.OpInput, guest.InputBatch{Events: []guest.InputEvent{
		{Kind: "move", X: 3, Y: 4},
		{Kind: "button", Button: 1, Down: true},
		{Kind: "key", Keysym: 0xffe1, Down: true},
		{Kind: "move", X: 1280, Y: 4},
		{Kind: "move", X: 9, Y: 9},
	}}, nil, &res)
	if !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) || res.Done != 3 {
		t.Errorf("a point outside: %v after %d", err, res.Done)
	}
	if down := pressed(t, x); down != "" {
		t.Errorf("left pressed after the error: %s", down)
	}
}

// pressed says which keys and buttons the server holds down.
func pressed(t *testing.T, x *xserver) string {
	t.Helper()
	out := string(x.output(t, nil, "sh", "-c",
		"for d in $(xinput list --id-only); do xinput query-state $d; done 2>/dev/null | grep -- =down; true"))
	return strings.TrimSpace(out)
}

func TestKeysInAnyLayout(t *testing.T) {
	x, p := desktop(t)
	file := startRecorder(t, x, p)
	want := ""
	for _, layout := range []string{"us", "ru", "fr", "de"} {
		p.call(guest.OpSetKeyboard, guest.Keyboard{Layout: layout}, nil, nil)
		for _, k := range []struct {
			sym  uint32
			name string
		}{{'z', "z"}, {0x06d7, "Cyrillic_ve"}, {0x01006f22, "U6F22"}, {0xffc2, "F5"}, {0xff1b, "Escape"}} {
			p.play(guest.InputEvent{Kind: "key", Keysym: k.sym, Down: true}, guest.InputEvent{Kind: "key", Keysym: k.sym})
			want += "key+ " + k.name + "\nkey- " + k.name + "\n"
		}
	}
	var got string
	eventually(t, "keys recorded", func() bool {
		got = read(t, file)
		return strings.Count(got, "key-") >= 20
	})
	// GTK names a character without a name of its own by its keysym.
	got = strings.ReplaceAll(got, "U+6F22", "U6F22")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHeldAndLockedKeys(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "gtk.txt")
	x.run(t, "/usr/bin/python3", "-c", gtkEditor, file)
	p.focus(p.window("gtk-editor"))
	p.chord(0xffe5)                                                   // Caps Lock on
	p.play(guest.InputEvent{Kind: "key", Keysym: 0xffe1, Down: true}) // Shift held
	p.text("abc ABC äÄ Ж")
	expectFile(t, file, "abc ABC äÄ Ж")
	if !strings.Contains(pressed(t, x), "=down") {
		t.Error("Shift is not held again after the text")
	}
	p.play(guest.InputEvent{Kind: "release"})
	if down := pressed(t, x); down != "" {
		t.Errorf("after release: %s", down)
	}
	x.output(t, nil, "xdotool", "key", "a") // a plain key: Caps Lock is still on
	expectFile(t, file, "abc ABC äÄ ЖA")
}

func TestManyCharactersBeyondTheLayout(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "gtk.txt")
	x.run(t, "/usr/bin/python3", "-c", gtkEditor, file)
	p.focus(p.window("gtk-editor"))
	var b strings.Builder
	for i := range 150 { // more than there are spare keys
		b.WriteRune(rune(0x4e00 + i))
	}
	eff := p.text(b.String())
	expectFile(t, file, b.String())
	if eff.How != guest.TextByRemap {
		t.Errorf("typed by %s", eff.How)
	}
	// The spare keys come back.
	eventually(t, "spare keys returned", func() bool {
		return !strings.Contains(string(x.output(t, nil, "xmodmap", "-pke")), "U4E")
	})
}

// TestSpareKeysComeBack: also when the pointer moves all the time, from before
// they are given up until after it, and when one was held down meanwhile.
func TestSpareKeysComeBack(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	back := func(what string) {
		t.Helper()
		eventually(t, "spare keys returned "+what, func() bool {
			return !strings.Contains(string(x.output(t, nil, "xmodmap", "-pke")), "U4E")
		})
	}
	p.text("一")
	moves := make([]guest.InputEvent, 500)
	for i := range moves {
		moves[i] = guest.InputEvent{Kind: "move", X: i, Y: i}
	}
	var under []<-chan guest.HelperMessage // two at a time: a batch is always played
	for end := time.Now().Add(linger + 2*time.Second); time.Now().Before(end); {
		_, ch := p.send(guest.OpInput, guest.InputBatch{Events: moves}, nil, time.Minute)
		if under = append(under, ch); len(under) == 2 {
			<-under[0]
			under = under[1:]
		}
	}
	back("after other input")
	p.play(guest.InputEvent{Kind: "key", Keysym: 0x01004e01, Down: true})
	<-time.After(linger + 2*time.Second) // it is looked at while it is held
	p.play(guest.InputEvent{Kind: "key", Keysym: 0x01004e01})
	back("after a held key")
}

// linger is how long the player keeps characters on spare keys.
const linger = 5 * time.Second

func TestPaste(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "gtk.txt")
	x.run(t, "/usr/bin/python3", "-c", gtkEditor, file)
	p.focus(p.window("gtk-editor"))
	long := strings.Repeat("Zeile äöü Ж 漢 😀\n\t", 1250) // 20,000 characters
	for _, c := range []struct{ name, former string }{{"nothing", ""}, {"ours", "kept"}, {"another's", "xclip's"}} {
		name, former := c.name, c.former
		t.Run(name, func(t *testing.T) {
			switch name {
			case "ours":
				p.setText(former)
			case "another's":
				x.run(t, "sh", "-c", "printf %s \"xclip's\" | xclip -quiet -i -selection clipboard")
				eventually(t, "xclip owns", func() bool { return p.getText() == former })
			}
			begin := time.Now()
			eff := p.text(long)
			took := time.Since(begin)
			expectFile(t, file, long)
			if eff != (guest.InputEffect{Effect: guest.EffectConfirmed, How: guest.TextByPaste}) {
				t.Errorf("effect %+v", eff)
			}
			t.Logf("%.0f characters/s", float64(len([]rune(long)))/took.Seconds())
			var got string
			if former == "" {
				var ts guest.ClipboardTargets
				p.call(guest.OpClipboardTypes, nil, nil, &ts)
				got = strings.Join(ts.Types, " ")
			} else {
				got = p.getText()
			}
			if diff := cmp.Diff(former, got); diff != "" {
				t.Errorf("the clipboard afterwards: %s", diff)
			}
			p.chord(0xffe3, 'a')
			p.chord(0xffff)
			expectFile(t, file, "")
		})
	}
	t.Run("short by paste", func(t *testing.T) {
		p.play(guest.InputEvent{Kind: "paste", Text: "kurz ✓"})
		expectFile(t, file, "kurz ✓")
	})
}

func TestLongTextIntoXterm(t *testing.T) {
	x, p := desktop(t)
	file := filepath.Join(x.home, "xterm.txt")
	x.run(t, "xterm", "-u8", "-e", "sh", "-c", "stty raw -echo; exec cat > "+file)
	p.focus(p.window("xterm"))
	eventually(t, "cat runs", func() bool { _, err := os.Stat(file); return err == nil })
	long := strings.Repeat("ls -la /tmp äЖ漢\n", 30)
	eff := p.text(long)
	expectFile(t, file, strings.ReplaceAll(long, "\n", "\r"))
	t.Log(eff)
}

func TestUntypable(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	for name, ev := range map[string]guest.InputEvent{
		"control":        {Kind: "text", Text: "a\x07"},
		"unknown kind":   {Kind: "jump"},
		"button 0":       {Kind: "button", Down: true},
		"button 10":      {Kind: "button", Button: 10, Down: true},
		"no keysym":      {Kind: "key", Down: true},
		"negative point": {Kind: "move", X: -1},
		"endless scroll": {Kind: "scroll", DY: 1 << 30},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := p.try(guest.OpInput, guest.InputBatch{Events: []guest.InputEvent{ev}}, nil, nil)
			if !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
				t.Errorf("got %v", err)
			}
		})
	}
}
