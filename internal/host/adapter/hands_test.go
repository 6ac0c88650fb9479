package adapter

import (
	"context"
	"fmt"
	"image"
	"slices"
	"testing"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
)

// wire is a machine's keyboard and pointer, and the guest's helper, that say what
// they do. The machine knows places of keys and three buttons and a wheel.
type wire struct{ said []string }

func (w *wire) say(format string, args ...any) { w.said = append(w.said, fmt.Sprintf(format, args...)) }

func (w *wire) Pointer(_ context.Context, x, y int, b desktop.Button) error {
	if b > desktop.WheelDown<<1-1 {
		return desktop.ErrUnsupported
	}
	w.say("pointer %d,%d %d", x, y, b)
	return nil
}

func (w *wire) Key(_ context.Context, k desktop.Key, down bool) error {
	if k.Code == 0 {
		return desktop.ErrUnsupported
	}
	w.say("place %#x %t", k.Code, down)
	return nil
}

func (w *wire) Release(context.Context) error { w.say("release"); return nil }

// helping is the helper's side.
type helping struct{ *wire }

func (h helping) Input(_ context.Context, events []inject.Event) error {
	for _, e := range events {
		h.say("helper %s %d %#x %t %d", e.Kind, e.Button, e.Key.Sym, e.Down, e.DX)
	}
	return nil
}

func (helping) Pointer(context.Context) (image.Point, error) { return image.Point{}, nil }

func (helping) Text(context.Context, string, int) (inject.Result, error) {
	return inject.Result{}, nil
}

// TestHands: what the machine has it does, what it lacks the helper does, and
// everything is let go where it was pressed.
func TestHands(t *testing.T) {
	w := &wire{}
	h := &hands{Input: w, helper: helping{w}}
	ctx := t.Context()
	for _, do := range []func() error{
		func() error { return h.Key(ctx, desktop.Key{Sym: 'a', Code: 0x1e}, true) },
		func() error { return h.Key(ctx, desktop.Key{Sym: 'b'}, true) }, // a place is found
		func() error { return h.Key(ctx, desktop.Key{Sym: 0x10004f60}, true) },
		func() error { return h.Pointer(ctx, 1, 2, desktop.ButtonLeft) },
		func() error { return h.Pointer(ctx, 1, 2, desktop.ButtonLeft|desktop.ButtonBack) },
		func() error { return h.Pointer(ctx, 1, 2, desktop.WheelRight|desktop.ButtonBack) },
		func() error { return h.Release(ctx) },
		func() error { return h.Release(ctx) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"place 0x1e true", "place 0x30 true", "helper key 0 0x10004f60 true 0",
		"pointer 1,2 1",
		"pointer 1,2 1", "helper button 128 0x0 true 0",
		"pointer 1,2 0", "helper scroll 0 0x0 false 1",
		"release", "helper button 128 0x0 false 0", "helper key 0 0x10004f60 false 0",
		"release",
	}
	if !slices.Equal(w.said, want) {
		t.Errorf("done:\n%q, want\n%q", w.said, want)
	}
}
