//go:build integration && cgo

package recordings_test

import (
	"image/color"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/test/browser"
)

// TestPlay: somebody records on the viewer's page in Debian's Chromium, watches the
// recording there, goes to and fro in it, and deletes it.
func TestPlay(t *testing.T) {
	h := newHouse(t)
	shades := []color.RGBA{{200, 40, 40, 255}, {30, 60, 220, 255}}
	h.fill(shades[0])
	script := browser.Start(t, filepath.Join("testdata", "play.js"), map[string]any{
		"server": h.url, "desktop": h.desktop.ID, "ticket": h.ticket("admin"),
	}, 3*time.Minute)
	var said string
	script.Next(&said)
	var times []int64 // of a picture of each
	last := int64(0)
	for _, c := range shades {
		h.fill(c)
		// A still screen has a picture a second: this one is surely later than the change.
		last = h.until("some pictures", func(r api.Recording) bool { return r.DurationMS >= last+2500 }).DurationMS
		times = append(times, last)
	}
	script.Say([]int64{times[1], times[0]})
	var got struct {
		Duration      float64
		Width, Height int
		Colours       [][3]float64
		Bad           []string
	}
	script.Next(&got)
	script.Wait()
	if got.Duration < float64(last)/1000 || got.Duration > 120 || got.Width != 1280 || got.Height != 800 {
		t.Errorf("%+v", got)
	}
	for i, c := range []color.RGBA{shades[1], shades[0]} {
		for k, want := range []uint8{c.R, c.G, c.B} {
			if math.Abs(got.Colours[i][k]-float64(want)) > 16 {
				t.Errorf("at %d ms there is %v, want %v", times[1-i], got.Colours[i], c)
				break
			}
		}
	}
	if len(got.Bad) > 0 {
		t.Errorf("the page: %q", got.Bad)
	}
}
