//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// TestViewerTouch: on a phone a finger moves the guest's pointer, and a tap clicks
// where it is.
func TestViewerTouch(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{Name: "touched", WorkspaceMiB: 64}, api.StageDrawn)
	r := d.record(t)
	p := newPeople(t)
	p.all(t, step{Do: "open", Page: "phone", URL: d.link(t, "control", 0), Phone: true}, step{Do: "live", Page: "phone"})
	if err := d.Input().Move(t.Context(), 500, 350); err != nil {
		t.Fatal(err)
	}
	p.mirrored(t, d, "phone")
	p.all(t, step{Do: "tap", Page: "phone"}, step{Do: "take", Page: "phone"}) // the first touch offers control
	r.restart(t)
	p.all(t, step{Do: "tap", Page: "phone"})
	d.until(t, 30*time.Second, "a click", func(context.Context) error {
		if press, release := r.lines(t, "press"), r.lines(t, "release"); len(press) != 1 || len(release) != 1 {
			return errors.New("no click")
		}
		return nil
	})
	p.all(t, step{Do: "swipe", Page: "phone", X: 30, Y: 12})
	d.until(t, 30*time.Second, "the pointer's way", func(context.Context) error {
		if len(r.lines(t, "motion")) == 0 {
			return errors.New("no motion")
		}
		return nil
	})
	p.end(t)
}

// TestViewerDaemonKilled: a page comes back by itself after the daemon was killed,
// with the control that it had.
func TestViewerDaemonKilled(t *testing.T) {
	desks := alone(t)
	d := desks[0]
	paint := d.painter(t)
	paint("c83214")
	p := newPeople(t)
	p.all(t, step{Do: "open", Page: "ann", URL: d.link(t, "control", 0)}, step{Do: "live", Page: "ann"},
		step{Do: "shows", Page: "ann", X: 250, Y: 200, Colour: []int{200, 50, 20}}, step{Do: "take", Page: "ann"})
	host.Kill()
	p.do(t, step{Do: "says", Page: "ann", Text: "Reconnecting"}, nil)
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, other := range desks {
		if _, err := other.Wait(t.Context(), api.StageDrawn, 2*time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	paint("2864c8")
	p.all(t, step{Do: "shows", Page: "ann", X: 250, Y: 200, Colour: []int{40, 100, 200}}, step{Do: "mine", Page: "ann"}, step{Do: "release", Page: "ann"})
	p.end(t)
}
