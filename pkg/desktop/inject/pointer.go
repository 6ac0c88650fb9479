package inject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"math/bits"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/desktop"
)

const longest = time.Minute

func (a Move) act(ctx context.Context, in *Injector) (Result, error) {
	return in.moveTo(ctx, &a.To)
}

func (a Down) act(ctx context.Context, in *Injector) (Result, error) {
	return in.watched(ctx, func() (Result, error) {
		r, err := in.moveTo(ctx, a.At)
		if err != nil {
			return r, err
		}
		return r, in.button(ctx, a.Button, true)
	})
}

func (a Up) act(ctx context.Context, in *Injector) (Result, error) {
	return in.watched(ctx, func() (Result, error) {
		r, err := in.moveTo(ctx, a.At)
		if err != nil {
			return r, err
		}
		return r, in.button(ctx, a.Button, false)
	})
}

func (a Click) act(ctx context.Context, in *Injector) (Result, error) {
	if a.Count < 0 || a.Count > 10 {
		return Result{}, fmt.Errorf("click %d times: use 1 to 10", a.Count)
	}
	return in.watched(ctx, func() (Result, error) {
		r, err := in.moveTo(ctx, a.At)
		if err != nil {
			return r, err
		}
		return r, in.holding(ctx, a.Keys, func() error {
			for i := range max(a.Count, 1) {
				if i > 0 {
					if err := sleep.For(ctx, in.cfg.Between); err != nil {
						return err
					}
				}
				if err := in.press(ctx, a.Button); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (in *Injector) press(ctx context.Context, b desktop.Button) error {
	if err := in.button(ctx, b, true); err != nil {
		return err
	}
	if err := sleep.For(ctx, in.cfg.Press); err != nil {
		return err
	}
	return in.button(ctx, b, false)
}

// moveTo moves the pointer (nil: leaves it), waits a moment, and reads its
// place back where a helper can.
func (in *Injector) moveTo(ctx context.Context, to *Point) (Result, error) {
	if to == nil {
		return in.here(ctx)
	}
	screen, err := in.screen(ctx)
	if err != nil {
		return Result{}, err
	}
	p, err := to.View.ToScreen(screen, image.Pt(to.X, to.Y))
	if err != nil {
		return Result{}, fmt.Errorf("move pointer: %w", err)
	}
	if err := in.send(ctx, p); err != nil {
		return Result{}, err
	}
	if in.cfg.Helper == nil {
		return Result{Effect: desktop.Unverified, How: "no helper reads the pointer back"}, sleep.For(ctx, in.cfg.Settle)
	}
	return in.readBack(ctx, p, screen)
}

// here makes sure that the pointer's place is known.
func (in *Injector) here(ctx context.Context) (Result, error) {
	if in.placed {
		return Result{Effect: desktop.Unverified, How: "the pointer was not moved"}, nil
	}
	if in.cfg.Helper != nil {
		p, err := in.cfg.Helper.Pointer(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("read pointer: %w", err)
		}
		in.at, in.placed = p, true
		return Result{Effect: desktop.Confirmed, How: "pointer read back"}, nil
	}
	return Result{}, fmt.Errorf("act where the pointer is: nobody has moved it yet; name a point: %w", desktop.ErrUnsupported)
}

// send moves the pointer, by the helper where the hypervisor has no absolute
// pointer.
func (in *Injector) send(ctx context.Context, p image.Point) error {
	err := in.cfg.Input.Pointer(ctx, p.X, p.Y, in.buttons)
	if errors.Is(err, desktop.ErrUnsupported) && in.cfg.Helper != nil {
		err = in.cfg.Helper.Input(ctx, []Event{{Kind: EventMove, At: p}})
	}
	if err != nil {
		return fmt.Errorf("move pointer: %w", err)
	}
	in.at, in.placed = p, true
	return nil
}

// readBack asks the guest where the pointer is until it is at p. A pointer
// that stays a pixel or two beside it, from the rounding of the tablet's grid,
// is sent once more, that much further.
func (in *Injector) readBack(ctx context.Context, p, screen image.Point) (Result, error) {
	end := time.Now().Add(in.cfg.ReadBack)
	nudged := false
	var last image.Point
	same := 0
	for {
		got, err := in.cfg.Helper.Pointer(ctx)
		if ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		if err != nil {
			return Result{Effect: desktop.Unverified, How: fmt.Sprintf("read pointer: %v", err)}, sleep.For(ctx, in.cfg.Settle)
		}
		if got == p {
			return Result{Effect: desktop.Confirmed, How: "pointer read back"}, nil
		}
		if same++; got != last {
			last, same = got, 0
		}
		off := p.Sub(got)
		if same >= 2 && !nudged && near(off) {
			nudged = true
			if q := p.Add(off); q.In(image.Rectangle{Max: screen}) {
				if err := in.cfg.Input.Pointer(ctx, q.X, q.Y, in.buttons); err != nil {
					return Result{}, fmt.Errorf("move pointer: %w", err)
				}
			}
		}
		if !time.Now().Before(end) {
			return Result{Effect: desktop.Unverified, How: fmt.Sprintf("the guest has the pointer at (%d,%d)", got.X, got.Y)}, nil
		}
		if err := sleep.For(ctx, 5*time.Millisecond); err != nil {
			return Result{}, err
		}
	}
}

func near(d image.Point) bool { return max(d.X, -d.X) <= 2 && max(d.Y, -d.Y) <= 2 }

// button presses or releases one button where the pointer is.
func (in *Injector) button(ctx context.Context, b desktop.Button, down bool) error {
	b = cmp.Or(b, desktop.ButtonLeft)
	if bits.OnesCount16(uint16(b)) != 1 || b > desktop.ButtonForward {
		return fmt.Errorf("press button %#x: name one button", uint16(b))
	}
	if !down && in.clicked&b != 0 {
		return in.helperButton(ctx, b, false)
	}
	mask := in.buttons &^ b
	if down {
		mask |= b
	}
	err := in.cfg.Input.Pointer(ctx, in.at.X, in.at.Y, mask)
	if err == nil {
		in.buttons = mask
		return nil
	}
	if !errors.Is(err, desktop.ErrUnsupported) || in.cfg.Helper == nil {
		return fmt.Errorf("press button: %w", err)
	}
	return in.helperButton(ctx, b, down)
}

// helperButton presses or releases a button that the machine's pointer lacks.
func (in *Injector) helperButton(ctx context.Context, b desktop.Button, down bool) error {
	if err := in.cfg.Helper.Input(ctx, []Event{{Kind: EventButton, Button: b, Down: down}}); err != nil {
		return fmt.Errorf("press button by the guest's helper: %w", err)
	}
	in.clicked &^= b
	if down {
		in.clicked |= b
	}
	return nil
}

func (a Scroll) act(ctx context.Context, in *Injector) (Result, error) {
	if limit := 1000; max(a.DX, -a.DX, a.DY, -a.DY) > limit {
		return Result{}, fmt.Errorf("scroll (%d,%d) steps: at most %d each way", a.DX, a.DY, limit)
	}
	if a.DX != 0 && in.cfg.Helper == nil {
		return Result{}, fmt.Errorf("scroll sideways: the machine's pointer has no horizontal wheel and the guest no helper: %w", desktop.ErrUnsupported)
	}
	return in.watched(ctx, func() (Result, error) {
		r, err := in.moveTo(ctx, a.At)
		if err != nil {
			return r, err
		}
		return r, in.holding(ctx, a.Keys, func() error {
			if err := in.wheel(ctx, a.DY); err != nil || a.DX == 0 {
				return err
			}
			if err := in.cfg.Helper.Input(ctx, []Event{{Kind: EventScroll, DX: a.DX}}); err != nil {
				return fmt.Errorf("scroll sideways by the guest's helper: %w", err)
			}
			return nil
		})
	})
}

// wheel turns the vertical wheel; down is positive.
func (in *Injector) wheel(ctx context.Context, steps int) error {
	b := desktop.WheelDown
	if steps < 0 {
		b, steps = desktop.WheelUp, -steps
	}
	for range steps {
		for _, down := range []bool{true, false} {
			if err := in.button(ctx, b, down); err != nil {
				return err
			}
		}
		if err := sleep.For(ctx, in.cfg.Settle); err != nil {
			return err
		}
	}
	return nil
}
