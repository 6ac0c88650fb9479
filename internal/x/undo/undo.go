// Package undo keeps the steps back out of a half-done piece of work.
package undo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Stack holds undo steps, newest last. The zero value is ready. Not safe for
// concurrent use.
type Stack struct{ steps []step }

type step struct {
	name string
	fn   func(context.Context) error
}

// Push adds a step; name appears in its error.
func (s *Stack) Push(name string, fn func(context.Context) error) {
	s.steps = append(s.steps, step{name, fn})
}

// Release forgets all steps: the work is done.
func (s *Stack) Release() { s.steps = nil }

// Run takes all steps, newest first, even when some go wrong, and forgets
// them. The cancellation of ctx does not stop it; timeout bounds it as a whole.
func (s *Stack) Run(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	var errs []error
	for _, st := range slices.Backward(s.steps) {
		if err := st.fn(ctx); err != nil {
			errs = append(errs, fmt.Errorf("undo %s: %w", st.name, err))
		}
	}
	s.steps = nil
	return errors.Join(errs...)
}
