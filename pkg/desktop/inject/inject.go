// Package inject performs the verbs of pointer and keyboard on a desktop: move,
// click, drag, scroll, chords, holding, text. It takes the hypervisor's input
// path where that can do the job and a helper in the guest where it cannot,
// reads back what can be read back, and never leaves a key or button pressed
// after a failure.
package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Config says what an Injector works on and how fast. Source and Input are
// required; other zero values mean the stated defaults.
type Config struct {
	Source desktop.Source
	Input  desktop.Input
	// Helper is the guest's side; nil: there is none (firmware, console).
	Helper Helper
	// Rate is how many keys are pressed a second, at most. Default 30. QEMU
	// drops keys when its queue overflows, and an emulated guest needs fewer.
	Rate int
	// Settle is the pause between moving the pointer and pressing a button,
	// and between steps of the wheel. Default 15 ms.
	Settle time.Duration
	// Press is how long a click holds the button. Default 40 ms.
	Press time.Duration
	// Between is the pause between the clicks of a double click. Default 60 ms.
	Between time.Duration
	// ReadBack is how long to wait for the guest to report the pointer where it
	// was sent. Default 200 ms.
	ReadBack time.Duration
	// Confirm is how long to wait for pixels to change after an action that
	// cannot be read back. Default 200 ms; negative: do not look.
	Confirm time.Duration
	// ByMeaning says whether keys are to be pressed by the helper, by what they
	// mean in the guest's layout: Input presses them by their place on a US
	// keyboard, where ctrl+z is ctrl+y of a German guest. While the helper has no
	// display Input presses them all the same. nil: Input presses all it can.
	ByMeaning func() bool
	// PasteAbove is the number of characters above which the helper may paste a
	// text. Default 200.
	PasteAbove int
}

func (c Config) withDefaults() (Config, error) {
	if c.Source == nil || c.Input == nil {
		return c, errors.New("configure injector: Source and Input are required")
	}
	if c.Rate < 0 || c.Settle < 0 || c.Press < 0 || c.Between < 0 || c.ReadBack < 0 || c.PasteAbove < 0 {
		return c, errors.New("configure injector: rates and durations must not be negative")
	}
	c.Rate = cmp.Or(c.Rate, 30)
	c.Settle = cmp.Or(c.Settle, 15*time.Millisecond)
	c.Press = cmp.Or(c.Press, 40*time.Millisecond)
	c.Between = cmp.Or(c.Between, 60*time.Millisecond)
	c.ReadBack = cmp.Or(c.ReadBack, 200*time.Millisecond)
	c.Confirm = cmp.Or(c.Confirm, 200*time.Millisecond)
	c.PasteAbove = cmp.Or(c.PasteAbove, 200)
	return c, nil
}

// Result says how far an action's success is proven.
type Result struct {
	Effect desktop.Effect
	How    string       // what proved it, or why nothing did
	At     *image.Point // where the pointer is now, in screen pixels, if known
}

// BatchError says which action of a batch failed.
type BatchError struct {
	Index int // of the action, from 0
	Err   error
}

func (e *BatchError) Error() string { return fmt.Sprintf("action %d: %v", e.Index, e.Err) }

// Unwrap returns why the action failed.
func (e *BatchError) Unwrap() error { return e.Err }

// Injector performs actions on one desktop, one after the other whoever asks.
// Safe for concurrent use.
type Injector struct {
	cfg  Config
	turn chan struct{} // holds a token while somebody acts, and guards what follows

	at       image.Point
	placed   bool // at is known
	buttons  desktop.Button
	keys     []desktop.Key  // held by Input, in the order of pressing
	byHelper []desktop.Key  // held by Helper
	clicked  desktop.Button // held by Helper
	nextKey  time.Time      // no key is pressed before
}

// New returns an injector. It starts nothing.
func New(cfg Config) (*Injector, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Injector{cfg: cfg, turn: make(chan struct{}, 1)}, nil
}

// Do performs actions in order and stops at the first that fails, with a
// *BatchError; the results are those of the actions before it. After a failure
// or a cancellation nothing is held down any more. What Down, KeyDown and their
// like press is held until it is released, also by a later call.
func (in *Injector) Do(ctx context.Context, actions ...Action) ([]Result, error) {
	if err := in.lock(ctx); err != nil {
		return nil, err
	}
	defer in.unlock()
	results := make([]Result, 0, len(actions))
	for i, a := range actions {
		if a == nil {
			return results, &BatchError{i, errors.Join(errors.New("no action"), in.letGo(ctx))}
		}
		r, err := a.act(ctx, in)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return results, &BatchError{i, errors.Join(err, in.letGo(ctx))}
		}
		if in.placed {
			at := in.at
			r.At = &at
		}
		results = append(results, r)
	}
	return results, nil
}

// Release lets go of everything that is held: for a hand-over. It waits for
// the call that is under way; cancel that first. Where the pointer is then is asked
// anew where a helper can tell: somebody else may move it.
func (in *Injector) Release(ctx context.Context) error {
	if err := in.lock(ctx); err != nil {
		return err
	}
	defer in.unlock()
	in.placed = in.placed && in.cfg.Helper == nil
	return in.letGo(ctx)
}

// Held tells whether any key or button is held down.
func (in *Injector) Held(ctx context.Context) (bool, error) {
	if err := in.lock(ctx); err != nil {
		return false, err
	}
	defer in.unlock()
	return len(in.keys) > 0 || len(in.byHelper) > 0 || in.buttons != 0 || in.clicked != 0, nil
}

func (in *Injector) lock(ctx context.Context) error {
	select {
	case in.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other input: %w", ctx.Err())
	}
}

func (in *Injector) unlock() { <-in.turn }

// letGo releases everything, even when ctx has ended.
func (in *Injector) letGo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var events []Event
	for _, k := range slices.Backward(in.byHelper) {
		events = append(events, Event{Kind: EventKey, Key: k})
	}
	if in.clicked != 0 {
		for b := desktop.ButtonLeft; b <= desktop.ButtonForward; b <<= 1 {
			if in.clicked&b != 0 {
				events = append(events, Event{Kind: EventButton, Button: b})
			}
		}
	}
	in.keys, in.byHelper, in.buttons, in.clicked = nil, nil, 0, 0
	err := in.cfg.Input.Release(ctx)
	if len(events) > 0 && in.cfg.Helper != nil {
		err = errors.Join(err, in.cfg.Helper.Input(ctx, events))
	}
	if err != nil {
		return fmt.Errorf("release keys and buttons: %w", err)
	}
	return nil
}

// screen returns the screen's size.
func (in *Injector) screen(ctx context.Context) (image.Point, error) {
	f, err := in.cfg.Source.Frame(ctx)
	if err != nil {
		return image.Point{}, fmt.Errorf("look at the screen: %w", err)
	}
	return f.Image.Rect.Size(), nil
}
