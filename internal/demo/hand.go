package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// How long things of the guest may take under the slowest accelerator, on a
// host that is busy with others. Nothing waits that long on an ordinary one.
const (
	openWithin   = 5 * time.Minute
	doneWithin   = 2 * time.Minute
	lookEvery    = 250 * time.Millisecond
	settleWithin = 10 * time.Second
	stillFor     = 600 * time.Millisecond

	pictureWithin = 30 * time.Second
	pictureStill  = 2 * time.Second
)

// hand works on one desktop, as a person would.
type hand struct {
	d   *client.Desktop
	say Say
}

// The programs of the panel in the image debian-xfce: how far the middle of their
// launchers is from the panel's left edge, in pixels.
const (
	launchTerminal = 122
	launchFiles    = 186
	launchEditor   = 218
)

// launch clicks a launcher on the panel.
func (h hand) launch(ctx context.Context, what string, offset int) error {
	list, err := h.d.Windows().List(ctx)
	if err != nil {
		return fmt.Errorf("list windows: %w", err)
	}
	panel := slices.IndexFunc(list, func(w api.Window) bool { return w.Type == "dock" })
	if panel < 0 {
		return api.Errorf(api.CodePrecondition, "the desktop has no panel to click on")
	}
	x, y := list[panel].X+offset, list[panel].Y+list[panel].Height/2
	h.say("clicking the %s's launcher at %d, %d", what, x, y)
	if err := h.d.Click(ctx, x, y); err != nil {
		return fmt.Errorf("click the launcher of the %s: %w", what, err)
	}
	return nil
}

// terminal sees to a terminal that has the keyboard, and says whether it had to
// be opened.
func (h hand) terminal(ctx context.Context) (opened bool, err error) {
	list, err := h.d.Windows().List(ctx)
	if err != nil {
		return false, fmt.Errorf("list windows: %w", err)
	}
	w, ok := top(list, isTerminal)
	if ok {
		h.say("a terminal is open already")
		if err := h.d.Windows().Focus(ctx, w.ID); err != nil {
			return false, fmt.Errorf("raise the terminal: %w", err)
		}
	} else {
		if err := h.launch(ctx, "terminal", launchTerminal); err != nil {
			return false, err
		}
		if w, err = h.window(ctx, openWithin, "the terminal's window", isTerminal); err != nil {
			return false, err
		}
		h.settle(ctx) // the shell's prompt
	}
	// A click into it gives it the keyboard, as a person would do it.
	return !ok, h.clickInto(ctx, w)
}

func isTerminal(w api.Window) bool {
	return w.Type == "normal" && strings.Contains(strings.ToLower(w.Class), "terminal")
}

// titled matches windows by a part of their title.
func titled(part string) func(api.Window) bool {
	return func(w api.Window) bool { return strings.Contains(w.Title, part) }
}

// top finds the topmost window that is wanted and not minimized.
func top(list []api.Window, wanted func(api.Window) bool) (api.Window, bool) {
	for _, w := range slices.Backward(list) {
		if !w.Minimized && wanted(w) {
			return w, true
		}
	}
	return api.Window{}, false
}

// window waits for one that is wanted.
func (h hand) window(ctx context.Context, within time.Duration, what string, wanted func(api.Window) bool) (api.Window, error) {
	var w api.Window
	var seen []string
	err := poll(ctx, within, func() (bool, error) {
		list, err := h.d.Windows().List(ctx)
		if err != nil {
			return false, fmt.Errorf("list windows: %w", err)
		}
		seen = seen[:0]
		for _, w := range list {
			seen = append(seen, w.Title)
		}
		var ok bool
		w, ok = top(list, wanted)
		return ok, nil
	})
	if err != nil {
		return w, fmt.Errorf("wait for %s among %q: %w", what, seen, err)
	}
	return w, nil
}

// clickInto clicks the middle of a window.
func (h hand) clickInto(ctx context.Context, w api.Window) error {
	if err := h.d.Click(ctx, w.X+w.Width/2, w.Y+w.Height/2); err != nil {
		return fmt.Errorf("click into %q: %w", w.Title, err)
	}
	return nil
}

// keys presses chords, one after the other.
func (h hand) keys(ctx context.Context, chords ...string) error {
	for _, k := range chords {
		if err := h.d.Key(ctx, k); err != nil {
			return fmt.Errorf("press %s: %w", k, err)
		}
	}
	return nil
}

// text types.
func (h hand) text(ctx context.Context, text string) error {
	if err := h.d.Type(ctx, text); err != nil {
		return fmt.Errorf("type %.20q: %w", text, err)
	}
	return nil
}

// enter types a line and ends it.
func (h hand) enter(ctx context.Context, line string) error {
	if err := h.text(ctx, line); err != nil {
		return err
	}
	return h.keys(ctx, "Return")
}

// content reads a file by exec; there is none: false.
func (h hand) content(ctx context.Context, path string) (string, bool, error) {
	res, err := h.d.Exec(ctx, "cat", path)
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", path, err)
	}
	return strings.TrimSpace(string(res.Stdout)), res.ExitCode == 0, nil
}

// reads waits until a file is as wanted.
func (h hand) reads(ctx context.Context, path, want string) (string, error) {
	var got string
	err := poll(ctx, doneWithin, func() (there bool, err error) {
		got, there, err = h.content(ctx, path)
		return there && got == want, err
	})
	if err != nil {
		return got, fmt.Errorf("wait for %q in %s, which holds %q: %w", want, path, got, err)
	}
	return got, nil
}

// picture takes one of a screen that has come to rest.
func (h hand) picture(ctx context.Context) ([]byte, error) {
	// What was done is done, and on a busy host not yet drawn.
	_, _ = h.d.Screen().Wait(ctx, client.ScreenWait{For: "still", Still: pictureStill, Timeout: pictureWithin})
	shot, err := h.d.Screenshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a picture: %w", err)
	}
	return shot.Data, nil
}

// lose waits until a colour is gone from the screen. One that stays is no fault.
func (h hand) lose(ctx context.Context, c color.RGBA) error {
	err := poll(ctx, pictureWithin, func() (bool, error) {
		shot, err := h.d.Screenshot(ctx)
		if err != nil {
			return false, fmt.Errorf("take a picture: %w", err)
		}
		img, err := png.Decode(bytes.NewReader(shot.Data))
		if err != nil {
			return false, fmt.Errorf("read a picture: %w", err)
		}
		return !shows(img, c), nil
	})
	if errors.Is(err, &api.Error{Code: api.CodeDeadline}) {
		return nil
	}
	return err
}

// shows says whether more than a few pixels have a colour.
func shows(img image.Image, c color.RGBA) bool {
	const few = 1000
	seen, size := 0, img.Bounds()
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			if color.RGBAModel.Convert(img.At(x, y)) == c {
				seen++
			}
		}
	}
	return seen > few
}

// settle waits for a still screen. One that goes on moving is no fault.
func (h hand) settle(ctx context.Context) {
	_, _ = h.d.Screen().Wait(ctx, client.ScreenWait{For: "still", Still: stillFor, Timeout: settleWithin})
}

// poll asks until the answer is yes.
func poll(ctx context.Context, within time.Duration, done func() (bool, error)) error {
	limit := time.NewTimer(within)
	defer limit.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return api.Errorf(api.CodeDeadline, "not within %s", within)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
