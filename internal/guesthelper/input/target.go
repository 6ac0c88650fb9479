package input

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/internal/guesthelper/window"
	"github.com/deskfork/deskfork/pkg/guest"
)

// pingLimit bounds the wait for a program to say that it has read its events.
const pingLimit = 3 * time.Second

// kind is how a program takes pasted text and unusual characters.
type kind int

const (
	editor   kind = iota // Ctrl+V; what we know nothing about counts as one
	browser              // Ctrl+V; drops keys of characters beyond U+FFFF
	terminal             // Ctrl+Shift+V, one line at a time
	oldTerm              // pastes PRIMARY by Shift+Insert, one line at a time
)

// fetches is how often a program of the kind fetches a text that it is to paste:
// browsers twice into a page, once into the address bar.
func (k kind) fetches() int {
	if k == browser {
		return 2
	}
	return 1
}

// kinds by window class, in lower case.
var kinds = map[string]kind{
	"chromium": browser, "chromium-browser": browser, "google-chrome": browser, "chrome": browser,
	"brave-browser": browser, "microsoft-edge": browser, "electron": browser, "code": browser,
	"xfce4-terminal": terminal, "gnome-terminal": terminal, "gnome-terminal-server": terminal,
	"mate-terminal": terminal, "lxterminal": terminal, "terminator": terminal, "tilix": terminal,
	"konsole": terminal, "qterminal": terminal, "kitty": terminal, "alacritty": terminal, "st": oldTerm,
	"xterm": oldTerm, "uxterm": oldTerm, "urxvt": oldTerm, "rxvt": oldTerm, "koi8rxterm": oldTerm,
}

// target is the window that has the focus.
type target struct {
	top   xproto.Window // 0 when nothing has the focus
	class string
	kind  kind
	pings bool // answers _NET_WM_PING
}

// target finds the focused window's top level: the nearest ancestor that says
// what it is.
func (p *Player) target() (target, error) {
	f, err := xproto.GetInputFocus(p.d.Conn).Reply()
	if err != nil {
		return target{}, display.Wrap(err, "read focus")
	}
	w := f.Focus
	if w == xproto.InputFocusPointerRoot { // the window under the pointer has it
		at, err := p.at()
		if err != nil {
			return target{}, err
		}
		w = at.Child
	}
	for w > xproto.InputFocusPointerRoot && w != p.d.Root {
		raw, err := p.d.Property(w, "WM_CLASS")
		if errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
			return target{}, nil // it went meanwhile
		}
		if err != nil {
			return target{}, err
		}
		if len(raw) > 0 {
			return p.describe(w, window.Class(raw))
		}
		tree, err := xproto.QueryTree(p.d.Conn, w).Reply()
		if err != nil {
			return target{}, nil //nolint:nilerr // it went meanwhile
		}
		w = tree.Parent
	}
	return target{}, nil
}

func (p *Player) describe(w xproto.Window, class string) (target, error) {
	t := target{top: w, class: class, kind: kinds[strings.ToLower(class)]}
	protocols, err := p.d.AtomNames(w, "WM_PROTOCOLS")
	if errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
		return target{}, nil
	}
	t.pings = slices.Contains(protocols, "_NET_WM_PING")
	return t, err
}

// barrier waits until the target has read all events so far: it answers a
// ping, which comes behind them; one that cannot answer gets a pause. A
// program that does not answer in time is slow, not wrong: no error.
func (p *Player) barrier(ctx context.Context, t target) error {
	if !t.pings {
		return p.d.Sleep(ctx, settle)
	}
	ping, err := p.d.Message(t.top, "WM_PROTOCOLS")
	if err != nil {
		return err
	}
	a, err := p.d.Atom("_NET_WM_PING")
	if err != nil {
		return err
	}
	stamp := uint32(time.Now().UnixNano()) | 1 // tells our ping from the window manager's
	ping.Data = xproto.ClientMessageDataUnionData32New([]uint32{uint32(a), stamp, uint32(t.top), 0, 0})
	pong, cancel := p.listen(ping)
	defer cancel()
	err = display.Wrap(xproto.SendEventChecked(p.d.Conn, false, t.top, 0, string(ping.Bytes())).Check(), "ping window")
	if errors.Is(err, &guest.Error{Code: guest.CodeNotFound}) {
		return nil // closed by what was typed
	}
	if err != nil {
		return err
	}
	limit := time.NewTimer(pingLimit)
	defer limit.Stop()
	select {
	case <-pong:
	case <-limit.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-p.d.Done():
		return display.ErrLost
	}
	return nil
}

// listen waits for the answer to ping: the same message, sent to the root.
func (p *Player) listen(ping xproto.ClientMessageEvent) (<-chan struct{}, func()) {
	pong := make(chan struct{}, 1)
	want := ping.Data.Data32[:2]
	return pong, p.d.Subscribe(func(ev xgb.Event) {
		m, ok := ev.(xproto.ClientMessageEvent)
		if !ok || m.Window != p.d.Root || m.Type != ping.Type || !slices.Equal(m.Data.Data32[:2], want) {
			return
		}
		select {
		case pong <- struct{}{}:
		default:
		}
	})
}
