package window

import (
	"slices"
	"strings"

	"github.com/deskfork/deskfork/internal/guesthelper/display"
)

// Class returns the class part of WM_CLASS ("instance\0class\0"); the
// instance when there is no class.
func Class(raw []byte) string {
	instance, class, _ := strings.Cut(string(raw), "\x00")
	class, _, _ = strings.Cut(class, "\x00")
	if class == "" {
		class = instance
	}
	return display.Text([]byte(class))
}

// States reads _NET_WM_STATE. A window is maximized when it is so both ways.
func States(names []string) (minimized, maximized bool) {
	has := func(s string) bool { return slices.Contains(names, "_NET_WM_STATE_"+s) }
	return has("HIDDEN"), has("MAXIMIZED_VERT") && has("MAXIMIZED_HORZ")
}

// Kind reads _NET_WM_WINDOW_TYPE, whose first known entry counts: normal,
// dialog, desktop, dock or other. Without one a transient window is a dialog.
func Kind(types []string, transient bool) string {
	for _, t := range types {
		name, ok := strings.CutPrefix(t, "_NET_WM_WINDOW_TYPE_")
		if !ok {
			continue
		}
		switch name {
		case "NORMAL", "DIALOG", "DESKTOP", "DOCK":
			return strings.ToLower(name)
		}
		return "other"
	}
	if transient {
		return "dialog"
	}
	return "normal"
}

// Rect is a rectangle on the screen in pixels.
type Rect struct{ X, Y, Width, Height int }

// Extents are the widths of a frame's sides in pixels.
type Extents struct{ Left, Right, Top, Bottom int }

// ParseExtents reads _NET_FRAME_EXTENTS or _GTK_FRAME_EXTENTS; zero when it is
// not four values below 2^15.
func ParseExtents(vs []uint32) Extents {
	if len(vs) != 4 || slices.Max(vs) >= 1<<15 {
		return Extents{}
	}
	return Extents{Left: int(vs[0]), Right: int(vs[1]), Top: int(vs[2]), Bottom: int(vs[3])}
}

// Grow adds the frame around r.
func (r Rect) Grow(e Extents) Rect {
	return Rect{X: r.X - e.Left, Y: r.Y - e.Top, Width: r.Width + e.Left + e.Right, Height: r.Height + e.Top + e.Bottom}
}

// Shrink removes the frame from r.
func (r Rect) Shrink(e Extents) Rect {
	return Rect{X: r.X + e.Left, Y: r.Y + e.Top, Width: max(1, r.Width-e.Left-e.Right), Height: max(1, r.Height-e.Top-e.Bottom)}
}
