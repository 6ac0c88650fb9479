package inject

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/keysym"
)

// maxText bounds a text, in bytes.
const maxText = 1 << 20

func (a Text) act(ctx context.Context, in *Injector) (Result, error) {
	text := strings.ReplaceAll(a.Text, "\r\n", "\n")
	if !utf8.ValidString(text) {
		return Result{}, errors.New("type text: it is not valid UTF-8")
	}
	if len(text) > maxText {
		return Result{}, fmt.Errorf("type text of %d bytes: at most %d; write a file instead", len(text), maxText)
	}
	if text == "" {
		return Result{Effect: desktop.Confirmed, How: "nothing to type"}, nil
	}
	return in.watched(ctx, func() (Result, error) {
		if in.cfg.Helper == nil {
			return Result{How: "typed by keys"}, in.typeKeys(ctx, text)
		}
		r, err := in.typeByHelper(ctx, text)
		if errors.Is(err, desktop.ErrNoDisplay) { // firmware, a console, a login manager that went away
			return Result{How: "typed by keys"}, in.typeKeys(ctx, text)
		}
		return r, err
	})
}

// typeByHelper leaves the pace of a long text to the guest, which pastes it where
// it can tell when the program has taken it, and puts the clipboard back then.
func (in *Injector) typeByHelper(ctx context.Context, text string) (Result, error) {
	rate := in.cfg.Rate
	if utf8.RuneCountInString(text) > in.cfg.PasteAbove {
		rate = 0
	}
	r, err := in.cfg.Helper.Text(ctx, text, rate)
	if err != nil {
		return Result{}, fmt.Errorf("type text by the guest's helper: %w", err)
	}
	return r, nil
}

// typeKeys types text on a US keyboard, or nothing if it holds a character
// that is not on it.
func (in *Injector) typeKeys(ctx context.Context, text string) error {
	at := 0
	for _, r := range text {
		if keysym.Rune(r).Key.Code == 0 {
			return fmt.Errorf("type %q (character %d): without a helper in the guest only ASCII can be typed: %w", r, at, desktop.ErrUnsupported)
		}
		at++
	}
	shift := desktop.Key{Sym: keysym.ShiftL, Code: 0x2a}
	shifted := false
	for _, r := range text {
		s := keysym.Rune(r)
		if s.Shift != shifted {
			shifted = s.Shift
			if err := in.shift(ctx, shift, shifted); err != nil {
				return err
			}
		}
		if err := in.chord(ctx, []desktop.Key{s.Key}); err != nil {
			return err
		}
	}
	if shifted {
		return in.shift(ctx, shift, false)
	}
	return nil
}

func (in *Injector) shift(ctx context.Context, shift desktop.Key, down bool) error {
	if down {
		return in.down(ctx, shift)
	}
	return in.up(ctx, shift)
}
