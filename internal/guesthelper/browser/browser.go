// Package browser notices whether a browser has a page open in the session.
package browser

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/window"
	"github.com/deskfork/deskfork/pkg/guest"
)

// pause is the least time between two looks at the windows. The first change is
// looked at when it comes; others wait for each other.
const pause = 250 * time.Millisecond

// Watch looks at the windows when the window manager says that there are others.
// Without a window manager it sees nothing.
type Watch struct {
	d       *display.Display
	windows *window.Windows
	log     *slog.Logger
	wake    chan struct{} // holds a token when something may have changed
	states  chan bool
}

// New makes a watch. Nothing is looked at before Run.
func New(d *display.Display, ws *window.Windows, log *slog.Logger) *Watch {
	return &Watch{d: d, windows: ws, log: log, wake: make(chan struct{}, 1), states: make(chan bool)}
}

// States gives each change of whether a page is open; at first none is.
func (w *Watch) States() <-chan bool { return w.states }

// Run watches until ctx ends (then it returns nil) or the display is lost.
func (w *Watch) Run(ctx context.Context) error {
	lists := map[xproto.Atom]bool{}
	for _, name := range []string{"_NET_CLIENT_LIST", "_NET_CLIENT_LIST_STACKING"} {
		atom, err := w.d.Atom(name)
		if err != nil {
			return err
		}
		lists[atom] = true
	}
	stop := w.d.Subscribe(func(ev xgb.Event) {
		if p, ok := ev.(xproto.PropertyNotifyEvent); ok && p.Window == w.d.Root && lists[p.Atom] {
			w.nudge()
		}
	})
	defer stop()
	if err := w.d.Select(xproto.EventMaskPropertyChange); err != nil {
		return err
	}
	w.nudge() // what was there before
	err := w.follow(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (w *Watch) nudge() {
	select {
	case w.wake <- struct{}{}:
	default: // it is looked at in any case
	}
}

func (w *Watch) follow(ctx context.Context) error {
	told := false
	for {
		select {
		case <-w.wake:
		case <-w.d.Done():
			return display.ErrLost
		case <-ctx.Done():
			return ctx.Err()
		}
		open, err := w.open()
		switch {
		case errors.Is(err, display.ErrLost):
			return err
		case err != nil: // the next change is another chance
			w.log.Warn("look for windows of browsers", "err", err)
		case open != told:
			select {
			case w.states <- open:
				told = open
			case <-w.d.Done():
				return display.ErrLost
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := w.d.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// open says whether there is a window with a page now.
func (w *Watch) open() (bool, error) {
	all, err := w.windows.List()
	return slices.ContainsFunc(all, Page), err
}

// Page says whether a window is one of a browser that shows pages: no dialog, and
// none of another program.
func Page(w guest.Window) bool {
	class := strings.ToLower(w.Class)
	return w.Type == "normal" && slices.ContainsFunc(classes[:], func(c string) bool { return strings.HasPrefix(class, c) })
}

// classes are how WM_CLASS of browsers begins: chromium-browser, google-chrome-beta
// and firefox-esr are among them.
var classes = [...]string{"chromium", "google-chrome", "firefox"}
