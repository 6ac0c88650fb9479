// Package window lists and changes the top-level windows of the desktop
// session, by the words of EWMH 1.5 that window managers understand.
package window

import (
	"errors"
	"slices"

	"github.com/jezek/xgb/xproto"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
	"github.com/deskfork/deskfork/pkg/guest"
)

// errGone matches errors about windows that no longer exist.
var errGone = &guest.Error{Code: guest.CodeNotFound}

// Windows are the top-level windows of a display. Safe for concurrent use.
type Windows struct{ d *display.Display }

// New returns the windows of d.
func New(d *display.Display) *Windows { return &Windows{d: d} }

// List returns the windows, bottom of the stack first. A window that goes
// while it is looked at is left out.
func (ws *Windows) List() ([]guest.Window, error) {
	ids, err := ws.ids()
	if err != nil {
		return nil, err
	}
	out := make([]guest.Window, 0, len(ids))
	for _, id := range ids {
		w, err := ws.Get(id)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// ids lists the managed windows; without a window manager the mapped children
// of the root.
func (ws *Windows) ids() ([]xproto.Window, error) {
	for _, name := range []string{"_NET_CLIENT_LIST_STACKING", "_NET_CLIENT_LIST"} {
		vs, err := ws.d.Cards(ws.d.Root, name)
		if err != nil {
			return nil, err
		}
		if len(vs) > 0 {
			ids := make([]xproto.Window, len(vs))
			for i, v := range vs {
				ids[i] = xproto.Window(v)
			}
			return ids, nil
		}
	}
	managed, err := ws.managed()
	if err != nil || managed {
		return nil, err
	}
	tree, err := xproto.QueryTree(ws.d.Conn, ws.d.Root).Reply()
	if err != nil {
		return nil, display.Wrap(err, "list windows")
	}
	return slices.DeleteFunc(tree.Children, func(w xproto.Window) bool {
		a, err := xproto.GetWindowAttributes(ws.d.Conn, w).Reply()
		return err != nil || a.OverrideRedirect || a.MapState != xproto.MapStateViewable || a.Class == xproto.WindowClassInputOnly
	}), nil
}

// managed says whether a window manager runs.
func (ws *Windows) managed() (bool, error) {
	vs, err := ws.d.Cards(ws.d.Root, "_NET_SUPPORTING_WM_CHECK")
	if err != nil || len(vs) == 0 {
		return false, err
	}
	// The property outlives its owner: the window it names must name itself.
	again, err := ws.d.Cards(xproto.Window(vs[0]), "_NET_SUPPORTING_WM_CHECK")
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err == nil && len(again) > 0 && again[0] == vs[0], err
}

// Active returns the window that has the focus by the window manager's word; 0
// when none.
func (ws *Windows) Active() (xproto.Window, error) {
	vs, err := ws.d.Cards(ws.d.Root, "_NET_ACTIVE_WINDOW")
	if err != nil || len(vs) == 0 {
		return 0, err
	}
	return xproto.Window(vs[0]), nil
}

// Get describes one window. CodeNotFound when it is gone.
func (ws *Windows) Get(id xproto.Window) (guest.Window, error) {
	w := guest.Window{ID: uint64(id)}
	frame, err := ws.outer(id)
	if err != nil {
		return w, err
	}
	w.X, w.Y, w.Width, w.Height = frame.X, frame.Y, frame.Width, frame.Height
	if w.Title, err = ws.title(id); err != nil {
		return w, err
	}
	class, err := ws.d.Property(id, "WM_CLASS")
	if err != nil {
		return w, err
	}
	w.Class = Class(class)
	pid, err := ws.d.Cards(id, "_NET_WM_PID")
	if err != nil {
		return w, err
	}
	if len(pid) > 0 {
		w.PID = int(pid[0])
	}
	if w.Minimized, w.Maximized, err = ws.state(id); err != nil {
		return w, err
	}
	active, err := ws.Active()
	if err != nil {
		return w, err
	}
	w.Active = active == id
	w.Type, err = ws.kind(id)
	return w, err
}

func (ws *Windows) title(id xproto.Window) (string, error) {
	for _, name := range []string{"_NET_WM_NAME", "WM_NAME"} {
		s, err := ws.d.Text(id, name)
		if err != nil || s != "" {
			return s, err
		}
	}
	return "", nil
}

func (ws *Windows) state(id xproto.Window) (minimized, maximized bool, err error) {
	names, err := ws.d.AtomNames(id, "_NET_WM_STATE")
	if err != nil {
		return false, false, err
	}
	minimized, maximized = States(names)
	return minimized, maximized, nil
}

func (ws *Windows) kind(id xproto.Window) (string, error) {
	types, err := ws.d.AtomNames(id, "_NET_WM_WINDOW_TYPE")
	if err != nil {
		return "", err
	}
	transient, err := ws.d.Cards(id, "WM_TRANSIENT_FOR")
	if err != nil {
		return "", err
	}
	return Kind(types, len(transient) > 0 && transient[0] != 0), nil
}
