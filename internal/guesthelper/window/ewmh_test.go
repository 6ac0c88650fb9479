package window_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guesthelper/window"
)

func TestClass(t *testing.T) {
	for raw, want := range map[string]string{
		"xterm\x00XTerm\x00": "XTerm", "xterm\x00XTerm": "XTerm", "only": "only", "": "", "\x00Class\x00": "Class", "a\x00\x00": "a",
	} {
		if got := window.Class([]byte(raw)); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func TestStates(t *testing.T) {
	for name, c := range map[string]struct {
		names                []string
		minimized, maximized bool
	}{
		"none":     {nil, false, false},
		"hidden":   {[]string{"_NET_WM_STATE_HIDDEN"}, true, false},
		"one way":  {[]string{"_NET_WM_STATE_MAXIMIZED_VERT"}, false, false},
		"both":     {[]string{"_NET_WM_STATE_MAXIMIZED_VERT", "_NET_WM_STATE_FOCUSED", "_NET_WM_STATE_MAXIMIZED_HORZ"}, false, true},
		"no state": {[]string{"HIDDEN"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if mini, maxi := window.States(c.names); mini != c.minimized || maxi != c.maximized {
				t.Errorf("got %v, %v", mini, maxi)
			}
		})
	}
}

func TestKind(t *testing.T) {
	const p = "_NET_WM_WINDOW_TYPE_"
	for name, c := range map[string]struct {
		types     []string
		transient bool
		want      string
	}{
		"none": {nil, false, "normal"}, "transient": {nil, true, "dialog"}, "dock": {[]string{p + "DOCK"}, false, "dock"},
		"desktop": {[]string{p + "DESKTOP"}, false, "desktop"}, "first counts": {[]string{p + "SPLASH", p + "NORMAL"}, false, "other"},
		"foreign first": {[]string{"_KDE_NET_WM_WINDOW_TYPE_OVERRIDE", p + "NORMAL"}, true, "normal"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := window.Kind(c.types, c.transient); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestFrames(t *testing.T) {
	e := window.ParseExtents([]uint32{5, 6, 25, 7})
	in := window.Rect{X: 100, Y: 100, Width: 300, Height: 200}
	out := in.Grow(e)
	if diff := cmp.Diff(window.Rect{X: 95, Y: 75, Width: 311, Height: 232}, out); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(in, out.Shrink(e)); diff != "" {
		t.Error(diff)
	}
	for _, bad := range [][]uint32{nil, {1, 2, 3}, {1, 2, 3, 1 << 31}, {1, 2, 3, 4, 5}} {
		if got := window.ParseExtents(bad); got != (window.Extents{}) {
			t.Errorf("%v: %+v", bad, got)
		}
	}
	if got := (window.Rect{Width: 3, Height: 3}).Shrink(e); got.Width != 1 || got.Height != 1 {
		t.Errorf("smaller than its frame: %+v", got)
	}
}
