package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
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
		r, err := in.typeByHelper(ctx, a, text)
		if errors.Is(err, desktop.ErrNoDisplay) { // firmware, a console, a login manager that went away
			return Result{How: "typed by keys"}, in.typeKeys(ctx, text)
		}
		return r, err
	})
}

func (in *Injector) typeByHelper(ctx context.Context, a Text, text string) (Result, error) {
	if utf8.RuneCountInString(text) > in.cfg.PasteAbove {
		saved, err := in.cfg.Helper.Clipboard(ctx)
		if err == nil {
			return Result{How: "pasted"}, in.paste(ctx, text, cmp.Or(a.Paste, in.cfg.PasteChord), saved)
		}
		if errors.Is(err, desktop.ErrNoDisplay) || ctx.Err() != nil {
			return Result{}, fmt.Errorf("read clipboard: %w", err)
		}
		// A clipboard that cannot be saved is left alone.
	}
	err := in.cfg.Helper.Input(ctx, []Event{{Kind: EventText, Text: text, PerSecond: in.cfg.Rate}})
	if err != nil {
		return Result{}, fmt.Errorf("type text by the guest's helper: %w", err)
	}
	return Result{How: "typed by the guest's helper"}, nil
}

// paste puts text on the clipboard, presses chord, waits until the program has
// taken it, as far as the screen tells, and restores the clipboard.
func (in *Injector) paste(ctx context.Context, text, chord string, saved []Content) (err error) {
	keys, err := keysym.Chord(chord)
	if err != nil {
		return fmt.Errorf("paste: %w", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if e := in.cfg.Helper.SetClipboard(ctx, saved); e != nil {
			err = errors.Join(err, fmt.Errorf("restore clipboard: %w", e))
		}
	}()
	if err := in.cfg.Helper.SetClipboard(ctx, []Content{{Type: "text/plain", Data: []byte(text)}}); err != nil {
		return fmt.Errorf("set clipboard: %w", err)
	}
	if err := in.chord(ctx, keys); err != nil {
		return err
	}
	return in.calm(ctx, 150*time.Millisecond, 2*time.Second)
}

// calm waits until the screen has changed and then been still for quiet, at
// most for limit.
func (in *Injector) calm(ctx context.Context, quiet, limit time.Duration) error {
	end := time.Now().Add(limit)
	f, err := in.cfg.Source.Frame(ctx)
	wait := time.Second // for the first change; a slow guest takes its time
	for err == nil && time.Now().Before(end) {
		limited, cancel := context.WithTimeout(ctx, min(wait, time.Until(end)))
		next, e := in.cfg.Source.Next(limited, f.Seq)
		cancel()
		if e != nil {
			if ctx.Err() == nil && errors.Is(e, context.DeadlineExceeded) {
				return nil
			}
			err = e
			break
		}
		f, wait = next, quiet
	}
	if err != nil {
		return fmt.Errorf("wait for the pasted text: %w", err)
	}
	return nil
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
