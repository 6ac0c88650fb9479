//go:build integration

package guesthelper_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

func (p *peer) park() guest.Parked {
	p.t.Helper()
	var done guest.Parked
	p.call(guest.OpPark, guest.Park{Argv: []string{"xterm"}, Class: "XTerm", Quiet: time.Second}, nil, &done)
	return done
}

func (p *peer) shows(id uint64) bool {
	p.t.Helper()
	return slices.ContainsFunc(p.windows(), func(w guest.Window) bool { return w.ID == id })
}

// pixels is the screen as it is.
func (p *peer) pixels() string {
	p.t.Helper()
	return string(p.call(guest.OpScreenshot, guest.ScreenshotParams{Format: guest.FormatRGBA}, nil, nil))
}

// TestPark: a parked program leaves no trace on the screen, and its window is
// back when it is started, whichever way.
func TestPark(t *testing.T) {
	x, p := desktop(t)
	before := p.pixels()
	first := p.park()
	if first.PID == 0 || first.Window == 0 || p.shows(first.Window) {
		t.Fatalf("parked %+v, windows %+v", first, p.windows())
	}
	eventually(t, "a screen as before", func() bool { return p.pixels() == before })
	if again := p.park(); again != first {
		t.Errorf("parked again: %+v, not %+v", again, first)
	}
	var launched guest.Launched
	p.call(guest.OpLaunch, guest.Launch{Argv: []string{"/usr/bin/xterm"}}, nil, &launched)
	if launched.PID != first.PID {
		t.Errorf("launched %d, parked was %d", launched.PID, first.PID)
	}
	eventually(t, "the parked window", func() bool { return p.shows(first.Window) })
	p.call(guest.OpLaunch, guest.Launch{Argv: []string{"xterm"}}, nil, &launched)
	if launched.PID == first.PID {
		t.Error("the second start gave the first window")
	}
	show := func() error {
		cmd := exec.CommandContext(t.Context(), helperPath, "-open")
		cmd.Env = x.env()
		return cmd.Run()
	}
	var exit *exec.ExitError
	if err := show(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("nothing is parked, and show says %v", err)
	}
}

// TestParkedIsShownFromOutside: by a starter that looks for the mark, and after
// the helper has been replaced.
func TestParkedIsShownFromOutside(t *testing.T) {
	x, p := desktop(t)
	parked := p.park()
	mark := x.home + "/deskfork-parked"
	if _, err := os.Stat(mark); err != nil {
		t.Error(err)
	}
	cmd := exec.CommandContext(t.Context(), helperPath, "-open")
	cmd.Env = x.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	eventually(t, "the parked window", func() bool { return p.shows(parked.Window) })
	if _, err := os.Stat(mark); err == nil {
		t.Error("the mark is still there")
	}
}

// TestParkedProgramDies: its next start is an ordinary one.
func TestParkedProgramDies(t *testing.T) {
	_, p := desktop(t)
	parked := p.park()
	if err := exec.CommandContext(t.Context(), "kill", "-KILL", strconv.Itoa(parked.PID)).Run(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another program", func() bool {
		var launched guest.Launched
		p.call(guest.OpLaunch, guest.Launch{Argv: []string{"xterm"}}, nil, &launched)
		return launched.PID != parked.PID
	})
	p.window("XTerm")
}

// TestParkedBrowserOpensPages: an address given to a browser that was parked is
// opened in the window that comes back, and in no other.
func TestParkedBrowserOpensPages(t *testing.T) {
	x, p := desktop(t)
	browser := x.home + "/browser"
	script := "#!/bin/sh\nexec chromium --no-sandbox --no-first-run --disable-gpu --disable-dev-shm-usage --password-store=basic --user-data-dir=" +
		x.home + `/.config/chromium "$@"` + "\n"
	if err := os.WriteFile(browser, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(x.home+"/page.html", []byte("<title>the page</title>"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := p.pixels()
	var parked guest.Parked
	p.call(guest.OpPark, guest.Park{Argv: []string{browser}, Class: "Chromium", Quiet: time.Second}, nil, &parked)
	eventually(t, "a screen as before", func() bool { return p.pixels() == before })
	var launched guest.Launched
	p.call(guest.OpLaunch, guest.Launch{Argv: []string{browser}}, nil, &launched)
	if launched.PID != parked.PID {
		t.Errorf("launched %d, parked was %d", launched.PID, parked.PID)
	}
	// At once: the browser need not have noticed yet that its window is back.
	p.call(guest.OpLaunch, guest.Launch{URL: "file://" + x.home + "/page.html"}, nil, &launched)
	if page := p.window("the page"); page.ID != parked.Window || launched.PID != parked.PID {
		t.Errorf("the page is in window %d of process %d, parked was %+v", page.ID, launched.PID, parked)
	}
	if err := os.WriteFile(x.home+"/other.html", []byte("<title>the other page</title>"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), helperPath, "-open", "--", "other.html")
	cmd.Env, cmd.Dir = x.env(), x.home
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if page := p.window("the other page"); page.ID != parked.Window {
		t.Errorf("the other page is in window %d, parked was %d", page.ID, parked.Window)
	}
	if n := len(p.windows()); n != 1 {
		t.Errorf("%d windows: %+v", n, p.windows())
	}
}
