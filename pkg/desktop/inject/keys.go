package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskfork/deskfork/internal/x/sleep"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/keysym"
)

func (a Key) act(ctx context.Context, in *Injector) (Result, error) {
	keys, err := named(a.Keys)
	if err != nil {
		return Result{}, err
	}
	return in.watched(ctx, func() (Result, error) { return Result{}, in.chord(ctx, keys) })
}

func (a KeyDown) act(ctx context.Context, in *Injector) (Result, error) {
	keys, err := named(a.Keys)
	if err != nil {
		return Result{}, err
	}
	return in.watched(ctx, func() (Result, error) {
		for _, k := range keys {
			if err := in.down(ctx, k); err != nil {
				return Result{}, err
			}
		}
		return Result{}, nil
	})
}

func (a KeyUp) act(ctx context.Context, in *Injector) (Result, error) {
	keys, err := named(a.Keys)
	if err != nil {
		return Result{}, err
	}
	return in.watched(ctx, func() (Result, error) {
		for _, k := range slices.Backward(keys) {
			if err := in.up(ctx, k); err != nil {
				return Result{}, err
			}
		}
		return Result{}, nil
	})
}

func (a Hold) act(ctx context.Context, in *Injector) (Result, error) {
	keys, err := named(a.Keys)
	if err != nil {
		return Result{}, err
	}
	if a.Duration < 0 || a.Duration > longest {
		return Result{}, fmt.Errorf("hold keys for %v: use at most %v", a.Duration, longest)
	}
	if a.Rate < 0 || a.Rate > float64(in.cfg.Rate) {
		return Result{}, fmt.Errorf("repeat keys %v times a second: use at most %d", a.Rate, in.cfg.Rate)
	}
	return in.watched(ctx, func() (Result, error) {
		last := keys[len(keys)-1]
		for _, k := range keys {
			if err := in.down(ctx, k); err != nil {
				return Result{}, err
			}
		}
		if err := in.repeat(ctx, last, a.Duration, a.Rate); err != nil {
			return Result{}, err
		}
		for _, k := range slices.Backward(keys) {
			if err := in.up(ctx, k); err != nil {
				return Result{}, err
			}
		}
		return Result{}, nil
	})
}

// repeat keeps a key that is down pressed for d, with presses in between.
func (in *Injector) repeat(ctx context.Context, k desktop.Key, d time.Duration, rate float64) error {
	if rate == 0 {
		return sleep.For(ctx, d)
	}
	begun := time.Now()
	every := time.Duration(float64(time.Second) / rate)
	for i := 1; time.Duration(i)*every < d; i++ {
		if err := sleep.For(ctx, time.Until(begun.Add(time.Duration(i)*every-every/2))); err != nil {
			return err
		}
		if err := in.up(ctx, k); err != nil {
			return err
		}
		if err := sleep.For(ctx, time.Until(begun.Add(time.Duration(i)*every))); err != nil {
			return err
		}
		if err := in.down(ctx, k); err != nil {
			return err
		}
	}
	return sleep.For(ctx, time.Until(begun.Add(d)))
}

func (a Wait) act(ctx context.Context, _ *Injector) (Result, error) {
	if a.Duration < 0 || a.Duration > longest {
		return Result{}, fmt.Errorf("wait for %v: use at most %v", a.Duration, longest)
	}
	return Result{Effect: desktop.Confirmed, How: "time passed"}, sleep.For(ctx, a.Duration)
}

func named(names []string) ([]desktop.Key, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("press no key: name at least one: %w", desktop.ErrUnknownKey)
	}
	keys, err := keysym.Keys(names)
	if err != nil {
		return nil, fmt.Errorf("press keys: %w", err)
	}
	return keys, nil
}

// holding does something while keys are held.
func (in *Injector) holding(ctx context.Context, names []string, do func() error) error {
	if len(names) == 0 {
		return do()
	}
	keys, err := named(names)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := in.down(ctx, k); err != nil {
			return err
		}
	}
	if err := sleep.For(ctx, in.cfg.Settle); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	for _, k := range slices.Backward(keys) {
		if err := in.up(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// chord presses keys in order and releases them in reverse.
func (in *Injector) chord(ctx context.Context, keys []desktop.Key) error {
	for _, k := range keys {
		if err := in.down(ctx, k); err != nil {
			return err
		}
	}
	if err := sleep.For(ctx, in.half()); err != nil {
		return err
	}
	for _, k := range slices.Backward(keys) {
		if err := in.up(ctx, k); err != nil {
			return err
		}
	}
	return nil
}

// half is how long a key is down: half of its share of a second.
func (in *Injector) half() time.Duration { return time.Second / time.Duration(2*in.cfg.Rate) }

// down presses a key, no sooner than the rate allows. A key that the
// hypervisor's keyboard lacks is pressed by the helper.
func (in *Injector) down(ctx context.Context, k desktop.Key) error {
	if err := sleep.For(ctx, time.Until(in.nextKey)); err != nil {
		return err
	}
	in.nextKey = time.Now().Add(2 * in.half())
	if in.cfg.Helper != nil && in.cfg.ByMeaning != nil && in.cfg.ByMeaning() {
		if err := in.downByHelper(ctx, k); !errors.Is(err, desktop.ErrNoDisplay) {
			return err
		}
	}
	err := in.cfg.Input.Key(ctx, k, true)
	if err == nil {
		if !slices.Contains(in.keys, k) {
			in.keys = append(in.keys, k)
		}
		return nil
	}
	if !errors.Is(err, desktop.ErrUnsupported) || in.cfg.Helper == nil {
		return fmt.Errorf("press %s: %w", keysym.Name(k.Sym), err)
	}
	return in.downByHelper(ctx, k)
}

func (in *Injector) downByHelper(ctx context.Context, k desktop.Key) error {
	if err := in.cfg.Helper.Input(ctx, []Event{{Kind: EventKey, Key: k, Down: true}}); err != nil {
		return fmt.Errorf("press %s by the guest's helper: %w", keysym.Name(k.Sym), err)
	}
	if !slices.Contains(in.byHelper, k) {
		in.byHelper = append(in.byHelper, k)
	}
	return nil
}

// up releases a key the way it was pressed.
func (in *Injector) up(ctx context.Context, k desktop.Key) error {
	if i := slices.Index(in.byHelper, k); i >= 0 {
		if err := in.cfg.Helper.Input(ctx, []Event{{Kind: EventKey, Key: k}}); err != nil {
			return fmt.Errorf("release %s by the guest's helper: %w", keysym.Name(k.Sym), err)
		}
		in.byHelper = slices.Delete(in.byHelper, i, i+1)
		return nil
	}
	if err := in.cfg.Input.Key(ctx, k, false); err != nil {
		return fmt.Errorf("release %s: %w", keysym.Name(k.Sym), err)
	}
	if i := slices.Index(in.keys, k); i >= 0 {
		in.keys = slices.Delete(in.keys, i, i+1)
	}
	return nil
}
