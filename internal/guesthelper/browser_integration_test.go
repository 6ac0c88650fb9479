//go:build integration

package guesthelper_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// told is what the helper has told of browsers since it was asked last.
func (p *peer) told() (states []bool) {
	p.t.Helper()
	p.mu.Lock()
	unasked := p.waiting[0]
	p.mu.Unlock()
	for {
		select {
		case m := <-unasked:
			var now guest.Browsing
			if err := json.Unmarshal(m.Result, &now); err != nil || m.Op != guest.OpBrowsing {
				p.t.Fatalf("told %+v, %v", m, err)
			}
			states = append(states, now.Open)
		default:
			return states
		}
	}
}

// tells waits until the helper has told something, and demands that it is this.
func (p *peer) tells(what string, want ...bool) {
	p.t.Helper()
	var got []bool
	eventually(p.t, what, func() bool {
		got = append(got, p.told()...)
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		p.t.Fatalf("%s: told %v, want %v", what, got, want)
	}
}

// quiet lets the helper see what it may see, and demands that it tells nothing.
func (p *peer) quiet(what string) {
	p.t.Helper()
	<-time.After(time.Second)
	if got := p.told(); len(got) > 0 {
		p.t.Errorf("%s: told %v", what, got)
	}
}

func (p *peer) close(w guest.Window) { p.change(guest.WindowOp{ID: w.ID, Op: "close"}) }

// TestBrowsing: the helper tells when the first browser has a window, and when the
// last one has none, and nothing else.
func TestBrowsing(t *testing.T) {
	x, p := desktop(t)
	x.run(t, "xterm", "-T", "chromium")
	other := p.window("chromium")
	p.quiet("a program of another class")
	x.run(t, "xterm", "-class", "Chromium", "-T", "first")
	first := p.window("first")
	p.tells("the first browser", true)
	x.run(t, "xterm", "-class", "firefox-esr", "-T", "second")
	second := p.window("second")
	p.close(other)
	p.change(guest.WindowOp{ID: second.ID, Op: "minimize"})
	p.close(first)
	p.quiet("a browser that is minimized")
	again := startHelper(t, x)
	again.tells("another helper", true)
	p.close(second)
	p.tells("the end of the last one", false)
	again.tells("the end of the last one", false)
	killed := x.run(t, "xterm", "-class", "Chromium", "-T", "third")
	p.tells("another one", true)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.tells("its death", false)
}

// TestParkedIsNotBrowsing: a browser counts when it is shown.
func TestParkedIsNotBrowsing(t *testing.T) {
	_, p := desktop(t)
	browser := []string{"xterm", "-class", "Chromium"}
	var parked guest.Parked
	p.call(guest.OpPark, guest.Park{Argv: browser, Class: "Chromium", Quiet: time.Second}, nil, &parked)
	// Its window was there while it was drawn.
	p.tells("its start and its end on the screen", true, false)
	p.quiet("a parked browser")
	p.call(guest.OpLaunch, guest.Launch{Argv: browser[:1]}, nil, nil)
	p.tells("a browser that is shown", true)
	if err := exec.CommandContext(t.Context(), "kill", "-KILL", strconv.Itoa(parked.PID)).Run(); err != nil {
		t.Fatal(err)
	}
	p.tells("its death", false)
}

// TestBrowsingChromium: a real one has the class that is looked for.
func TestBrowsingChromium(t *testing.T) {
	x, p := desktop(t)
	startChromium(t, x, p)
	p.tells("a page", true)
	p.close(p.window("page %"))
	p.tells("its end", false)
}

// TestBrowsingWithoutManager: nobody says which windows there are, and so nothing
// is told.
func TestBrowsingWithoutManager(t *testing.T) {
	x := startX(t)
	x.run(t, "dbus-daemon", "--session", "--nofork", "--nosyslog", "--address=unix:path="+x.home+"/bus")
	p := startHelper(t, x)
	x.run(t, "xterm", "-class", "Chromium", "-T", "alone")
	p.window("alone")
	p.quiet("no window manager")
	eventually(t, "session bus", func() bool { _, err := os.Stat(x.home + "/bus"); return err == nil })
	x.run(t, "xfwm4", "--compositor=off")
	p.tells("a window manager", true)
}
