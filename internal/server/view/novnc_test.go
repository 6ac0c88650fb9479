//go:build integration

package view_test

import (
	"image"
	"image/color"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm/vmtest"
	"github.com/deskfork/deskfork/test/browser"
)

// TestNoVNC: Debian's noVNC, unmodified, in Debian's Chromium shows the desktop pixel
// by pixel under a ticket, takes control by a click, and sees what changes.
func TestNoVNC(t *testing.T) {
	const noVNC = "/usr/share/novnc"
	if _, err := os.Stat(noVNC + "/vnc_lite.html"); err != nil {
		t.Fatalf("Debian's package novnc is needed: %v", err)
	}
	d := newDoor(t, func(next http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("/novnc/", http.StripPrefix("/novnc/", http.FileServer(http.Dir(noVNC))))
		mux.Handle("/", next)
		return mux
	})
	points := []image.Point{{10, 10}, {0, 0}, {159, 99}, {160, 100}, {width - 1, height - 1}, {250, 63}, {250, 64}}
	var list [][2]int
	for _, p := range points {
		list = append(list, [2]int{p.X, p.Y})
	}
	script := browser.Start(t, "testdata/novnc.js", map[string]any{
		"server": d.url, "desktop": d.desktop.ID, "ticket": d.ticket("control").Ticket, "points": list,
	}, 5*time.Minute)
	var got [][]int
	script.Next(&got)
	want := picture(image.Pt(width, height))
	for i, p := range points {
		c := want.RGBAAt(p.X, p.Y)
		if !slices.Equal(got[i], []int{int(c.R), int(c.G), int(c.B)}) {
			t.Errorf("noVNC's pixel %v is %v, want %v", p, got[i], c)
		}
	}
	if size := got[len(points)]; !slices.Equal(size, []int{width, height}) {
		t.Errorf("noVNC's canvas has %v pixels", size)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("events: %+v", d.screen().Events())
		}
	})
	has := func(e vmtest.Event) func() bool {
		return func() bool { return slices.Contains(d.screen().Events(), e) }
	}
	until(t, "the click arrives", has(vmtest.Event{Kind: "pointer", X: 200, Y: 150, Buttons: 1}))
	until(t, "the button is up", has(vmtest.Event{Kind: "pointer", X: 200, Y: 150}))
	until(t, "the key arrives", has(vmtest.Event{Kind: "key", Keysym: 'a', Keycode: 0x1e, Down: true}))
	until(t, "the key is up", has(vmtest.Event{Kind: "key", Keysym: 'a', Keycode: 0x1e}))
	d.screen().Fill(image.Rect(0, 0, 100, 100), color.White)
	var last string
	if script.Next(&last); last != "white" {
		t.Errorf("noVNC says %q", last)
	}
	script.Wait()
	d.audited("viewer.joined", "control.taken", "control.released", "viewer.left")
}
