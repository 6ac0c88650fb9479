//go:build integration

package guesthelper_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/guest"
)

func (p *peer) change(op guest.WindowOp) guest.WindowDone {
	p.t.Helper()
	var done guest.WindowDone
	p.call(guest.OpWindow, op, nil, &done)
	if done.Effect != guest.EffectConfirmed {
		p.t.Errorf("%s: %s, %+v", op.Op, done.Effect, done.Window)
	}
	return done
}

func TestWindows(t *testing.T) {
	x, p := desktop(t)
	x.run(t, "/usr/bin/python3", "-c", strings.Replace(gtkEditor, "gtk-editor", "漢 editor", 1), x.home+"/a.txt")
	a := p.window("漢 editor")
	x.run(t, "xterm", "-T", "Fenster äöü", "-geometry", "60x20+300+200")
	b := p.window("Fenster äöü")
	if a.Type != "normal" || a.PID == 0 || b.Class != "XTerm" || b.Title != "Fenster äöü" {
		t.Errorf("described as %+v and %+v", a, b)
	}
	if b.X != 300 || b.Y != 200 {
		t.Errorf("the frame of a window put at (300, 200) is at (%d, %d)", b.X, b.Y)
	}
	p.change(guest.WindowOp{ID: a.ID, Op: "focus"})
	ws := p.windows()
	if top := ws[len(ws)-1]; top.ID != a.ID || !top.Active {
		t.Errorf("on top: %+v", top)
	}
	p.change(guest.WindowOp{ID: a.ID, Op: "move", X: 77, Y: 55})
	p.change(guest.WindowOp{ID: a.ID, Op: "resize", Width: 640, Height: 480})
	for range 3 { // the geometry does not creep
		p.change(guest.WindowOp{ID: a.ID, Op: "move", X: 80, Y: 60})
	}
	done := p.change(guest.WindowOp{ID: a.ID, Op: "maximize"})
	if done.Window.Width != 1280 {
		t.Errorf("maximized: %+v", done.Window)
	}
	done = p.change(guest.WindowOp{ID: a.ID, Op: "restore"})
	if done.Window.Width != 640 || done.Window.Height != 480 || done.Window.X != 80 {
		t.Errorf("restored: %+v", done.Window)
	}
	done = p.change(guest.WindowOp{ID: a.ID, Op: "minimize"})
	if done.Window.Active || !done.Window.Minimized {
		t.Errorf("minimized: %+v", done.Window)
	}
	p.change(guest.WindowOp{ID: a.ID, Op: "restore"})
	p.change(guest.WindowOp{ID: b.ID, Op: "close"})
	for _, op := range []string{"focus", "move", "close", "minimize"} {
		_, err := p.try(guest.OpWindow, guest.WindowOp{ID: b.ID, Op: op}, nil, nil)
		if !errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
			t.Errorf("%s a closed window: %v", op, err)
		}
	}
	for _, op := range []guest.WindowOp{{ID: a.ID, Op: "fly"}, {ID: a.ID, Op: "resize"}} {
		_, err := p.try(guest.OpWindow, op, nil, nil)
		if !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
			t.Errorf("%+v: %v", op, err)
		}
	}
}

func TestWindowsWithoutManager(t *testing.T) {
	x := startX(t)
	p := startHelper(t, x)
	x.run(t, "xterm", "-T", "alone")
	w := p.window("alone")
	_, err := p.try(guest.OpWindow, guest.WindowOp{ID: w.ID, Op: "maximize"}, nil, nil)
	if !errors.Is(err, &guest.Error{Code: guest.CodeUnsupported}) {
		t.Errorf("got %v", err)
	}
}
