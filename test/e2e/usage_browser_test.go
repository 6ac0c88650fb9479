//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// tellSlack is how late a busy guest may say that a window has come or gone.
const tellSlack = 5 * time.Second

// TestBrowserIsBilled holds browser_active_seconds against what a test has seen of
// a page: not while the browser is parked, from when the page is opened until it
// is closed, without the pause in between, and in a child from its own beginning.
func TestBrowserIsBilled(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	page := d.folder(t) + "/page.html"
	d.put(t, page, "<title>billed page</title>")
	none := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn) // its browser stays parked
	// The page may be open between asked and gone, and is from seen to closing.
	asked := time.Now()
	if _, err := d.Launch(t.Context(), api.Launch{URL: "file://" + page}); err != nil {
		t.Fatal(err)
	}
	w := d.window(t, "of the page", func(w api.Window) bool { return strings.HasPrefix(w.Title, "billed page") })
	seen := time.Now()
	<-time.After(10 * time.Second)
	pausing := time.Now()
	if _, err := d.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	<-time.After(10 * time.Second)
	resuming := time.Now()
	if _, err := d.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	resumed := time.Now()
	forking := time.Now()
	kid := d.fork(t, api.Fork{})
	forked := time.Now()
	<-time.After(10 * time.Second)
	closing := time.Now()
	d.shut(t, w)
	gone := time.Now()
	<-time.After(tellSlack + 5*time.Second) // of which at most the slack may count
	ended := time.Now()
	for _, x := range []desk{kid, d, none} {
		x.gone(t, host)
	}
	buried := time.Now()

	bounds := map[string]struct{ least, most time.Duration }{
		d.Info.Incarnation: {
			pausing.Sub(seen) + closing.Sub(resumed) - tellSlack - time.Second,
			paused.Sub(asked) + gone.Sub(resuming) + tellSlack,
		},
		kid.Info.Incarnation:  {ended.Sub(forked) - tellSlack - time.Second, buried.Sub(forking)},
		none.Info.Incarnation: {},
	}
	d.until(t, time.Minute, "rows as the page was seen", func(context.Context) error { // written a moment after an end
		var wrong []error
		got := map[string]time.Duration{}
		for _, e := range usageRows(t, host, asked) {
			if e.Kind == "browser_active_seconds" {
				got[e.Incarnation] += time.Duration(e.Value) * time.Second
			}
		}
		for inc, b := range bounds {
			if got[inc] < b.least || got[inc] > b.most {
				wrong = append(wrong, fmt.Errorf("%s: %v of a browser, want between %v and %v", inc, got[inc], b.least, b.most))
			}
		}
		return errors.Join(wrong...)
	})
}

// shut closes a window and waits until it is gone.
func (d desk) shut(t *testing.T, w api.Window) {
	t.Helper()
	if err := d.Windows().Close(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	d.until(t, time.Minute, "the window gone", func(ctx context.Context) error {
		all, err := d.Windows().List(ctx)
		if err != nil {
			return err
		}
		for _, x := range all {
			if x.ID == w.ID {
				return errors.New("still there")
			}
		}
		return nil
	})
}
