package adapter

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math/bits"
	"slices"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// helper is the guest's side of input.
type helper struct{ d *client.Desktop }

var _ inject.Helper = helper{}

// plain is the type of text in a clipboard.
const plain = "text/plain"

// Input implements inject.Helper.
func (h helper) Input(ctx context.Context, events []inject.Event) error {
	list := make([]guest.InputEvent, 0, len(events))
	for _, e := range events {
		out := guest.InputEvent{Kind: string(e.Kind), Down: e.Down, DX: e.DX, DY: e.DY}
		switch e.Kind {
		case inject.EventMove:
			out.X, out.Y = e.At.X, e.At.Y
		case inject.EventButton:
			// Bit n-1 is button n, in RFB and in X11.
			out.Button = bits.Len16(uint16(e.Button))
		case inject.EventKey:
			out.Keysym = uint32(e.Key.Sym)
		case inject.EventText:
			out.Text, out.PerSecond = e.Text, e.PerSecond
		case inject.EventScroll:
		}
		list = append(list, out)
	}
	_, err := h.d.Input(ctx, list)
	return displayError(err)
}

// Pointer implements inject.Helper.
func (h helper) Pointer(ctx context.Context) (image.Point, error) {
	p, err := h.d.Pointer(ctx)
	return image.Pt(p.X, p.Y), displayError(err)
}

// Clipboard implements inject.Helper. The guest can be given one type at a time,
// so one is what can be restored: an image, else text, else HTML.
func (h helper) Clipboard(ctx context.Context) ([]inject.Content, error) {
	types, err := h.d.ClipboardTypes(ctx)
	if err != nil {
		return nil, displayError(err)
	}
	for _, t := range []string{"image/png", plain, "text/html"} {
		if !slices.Contains(types, t) {
			continue
		}
		c, err := h.d.ClipboardGet(ctx, t)
		if err != nil {
			return nil, displayError(err)
		}
		return []inject.Content{{Type: t, Data: c.Data}}, nil
	}
	return nil, nil
}

// SetClipboard implements inject.Helper.
func (h helper) SetClipboard(ctx context.Context, contents []inject.Content) error {
	c := guest.Clipboard{Type: plain}
	if len(contents) > 0 {
		c = guest.Clipboard{Type: contents[0].Type, Data: contents[0].Data}
	}
	return displayError(h.d.ClipboardSet(ctx, c))
}

// displayError makes the guest's word for a missing session that of the desktop.
// A guest that cannot be reached has none either.
func displayError(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, &guest.Error{Code: guest.CodeNoDisplay}) || errors.Is(err, client.ErrClosed) {
		return fmt.Errorf("%w: %w", desktop.ErrNoDisplay, err)
	}
	return err
}
