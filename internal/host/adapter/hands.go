package adapter

import (
	"context"
	"errors"
	"sync"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
	"github.com/deskfork/deskfork/pkg/desktop/keysym"
)

// onlyHelper are buttons that the machine's pointer may lack.
const onlyHelper = desktop.WheelLeft | desktop.WheelRight | desktop.ButtonBack | desktop.ButtonForward

// hands are a person's, event by event: what the machine's own pointer and keyboard
// lack the guest's helper does.
type hands struct {
	desktop.Input

	helper inject.Helper

	mu      sync.Mutex
	buttons desktop.Button       // guarded by mu; held by the helper
	keys    map[desktop.Key]bool // guarded by mu; held by the helper
}

var _ desktop.Input = (*hands)(nil)

// Key implements desktop.Input. A key without a place gets that of a US keyboard,
// or is pressed by its meaning.
func (h *hands) Key(ctx context.Context, k desktop.Key, down bool) error {
	if k.Code == 0 {
		if known, err := keysym.Parse(keysym.Name(k.Sym)); err == nil {
			k = known
		}
	}
	err := h.Input.Key(ctx, k, down)
	if !errors.Is(err, desktop.ErrUnsupported) || h.helper == nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys == nil {
		h.keys = map[desktop.Key]bool{}
	}
	if err := h.helper.Input(ctx, []inject.Event{{Kind: inject.EventKey, Key: k, Down: down}}); err != nil {
		return err
	}
	if down {
		h.keys[k] = true
	} else {
		delete(h.keys, k)
	}
	return nil
}

// Pointer implements desktop.Input.
func (h *hands) Pointer(ctx context.Context, x, y int, buttons desktop.Button) error {
	err := h.Input.Pointer(ctx, x, y, buttons)
	if !errors.Is(err, desktop.ErrUnsupported) || h.helper == nil || buttons&onlyHelper == 0 && !h.any() {
		return err
	}
	if err := h.Input.Pointer(ctx, x, y, buttons&^onlyHelper); err != nil {
		return err
	}
	return h.others(ctx, buttons&onlyHelper)
}

func (h *hands) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buttons != 0
}

// others presses and releases buttons by the helper; a sideways wheel turns when it
// is pressed.
func (h *hands) others(ctx context.Context, buttons desktop.Button) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []inject.Event
	for b := desktop.ButtonLeft; b <= desktop.ButtonForward; b <<= 1 {
		down := buttons&b != 0
		switch {
		case down == (h.buttons&b != 0):
		case b == desktop.WheelLeft && down:
			events = append(events, inject.Event{Kind: inject.EventScroll, DX: -1})
		case b == desktop.WheelRight && down:
			events = append(events, inject.Event{Kind: inject.EventScroll, DX: 1})
		case b&(desktop.WheelLeft|desktop.WheelRight) == 0:
			events = append(events, inject.Event{Kind: inject.EventButton, Button: b, Down: down})
		}
	}
	h.buttons = buttons
	if len(events) == 0 {
		return nil
	}
	return h.helper.Input(ctx, events)
}

// Release implements desktop.Input.
func (h *hands) Release(ctx context.Context) error {
	err := errors.Join(h.Input.Release(ctx), h.others(ctx, 0))
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range h.keys {
		err = errors.Join(err, h.helper.Input(ctx, []inject.Event{{Kind: inject.EventKey, Key: k}}))
	}
	h.keys = nil
	return err
}
