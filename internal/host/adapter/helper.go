package adapter

import (
	"context"
	"errors"
	"fmt"
	"image"
	"math/bits"
	"time"
	"unicode/utf8"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/inject"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// helper is the guest's side of input.
type helper struct{ d *client.Desktop }

var _ inject.Helper = helper{}

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

// A guest ends what has no deadline after a minute: long texts need more where
// programs are slow, and nobody who waits is forgotten.
const (
	textLimit = time.Minute
	charLimit = 50 * time.Millisecond
)

// Text implements inject.Helper.
func (h helper) Text(ctx context.Context, text string, rate int) (inject.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, textLimit+time.Duration(utf8.RuneCountInString(text))*charLimit)
	defer cancel()
	res, err := h.d.Input(ctx, []guest.InputEvent{{Kind: "text", Text: text, PerSecond: rate}})
	if err != nil {
		return inject.Result{}, displayError(err)
	}
	r := inject.Result{How: "typed by the guest's helper"}
	if len(res.Effects) > 0 && res.Effects[0].How == guest.TextByPaste {
		r.How = "pasted"
		if res.Effects[0].Effect == guest.EffectConfirmed {
			r.Effect = desktop.Confirmed
		}
	}
	return r, nil
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
