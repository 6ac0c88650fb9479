package inject

import (
	"context"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// watched does something and, unless that is confirmed already, looks whether
// pixels change soon after. That something changed is no proof that it was this
// action's doing, but it is what can be seen from outside.
func (in *Injector) watched(ctx context.Context, do func() (Result, error)) (Result, error) {
	var before *desktop.Frame
	if in.cfg.Confirm > 0 {
		f, err := in.cfg.Source.Frame(ctx)
		if err != nil {
			return Result{}, fmt.Errorf("look at the screen: %w", err)
		}
		before = f
	}
	r, err := do()
	if err != nil || r.Effect == desktop.Confirmed {
		return r, err
	}
	r.Effect = desktop.Unverified
	if before == nil {
		return r, nil
	}
	limited, cancel := context.WithTimeout(ctx, in.cfg.Confirm)
	defer cancel()
	_, err = in.cfg.Source.Next(limited, before.Seq)
	switch {
	case err == nil:
		r.Effect = desktop.Confirmed
		r.How = join(r.How, "pixels changed")
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		r.How = join(r.How, fmt.Sprintf("no pixel changed within %v", in.cfg.Confirm))
	default:
		return r, fmt.Errorf("look at the screen: %w", err)
	}
	return r, nil
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
