package transaction

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// answer is what a port gave.
type answer[T any] struct {
	value T
	err   error
}

// await runs f and waits for it, and once ctx has ended for a grace longer. A call
// that is given up goes on as a straggler; late gets its value, if there is one.
func await[T any](h *Host, ctx context.Context, f func(context.Context) (T, error), late func(T)) (T, error) { //nolint:revive // ctx is not the first because h is a receiver that a generic cannot have
	done := make(chan answer[T], 1)
	h.stragglers.Go(func() {
		v, err := f(ctx)
		done <- answer[T]{v, err}
	})
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
	}
	grace := time.NewTimer(h.Grace)
	defer grace.Stop()
	select {
	case a := <-done:
		return a.value, a.err
	case <-grace.C:
	}
	if late != nil {
		h.stragglers.Go(func() {
			if a := <-done; a.err == nil {
				late(a.value)
			}
		})
	}
	var none T
	return none, errors.Join(ErrAbandoned, context.Cause(ctx))
}

// call is one step on the way up: it is not begun once the run is aborted. A value
// that comes with an abort is given, because the caller must undo it.
func call[T any](r *run, step string, f func(context.Context) (T, error), late func(T)) (T, error) {
	if err := r.aborted(); err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", step, err)
	}
	r.step(step)
	v, err := await(r.h, r.ctx, f, late)
	if err != nil {
		err = fmt.Errorf("%s: %w", step, err)
	}
	return v, err
}

// do is call for steps that give nothing. An abort meanwhile is an error.
func (r *run) do(step string, f func(context.Context) error) error {
	_, err := call(r, step, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, nil)
	return r.checked(step, err)
}

// checked adds the abort of the run to what a step said.
func (r *run) checked(step string, err error) error {
	if cause := r.aborted(); err == nil && cause != nil {
		return fmt.Errorf("after %s: %w", step, cause)
	}
	return err
}

// tidy is one step on the way down: it runs whatever became of the run, for at most
// limit and a grace.
func (r *run) tidy(step string, limit time.Duration, f func(context.Context) error) error {
	r.step(step)
	if err := r.h.bounded(r.ctx, limit, f); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}

// bounded runs f with a deadline of its own, free of ctx's end.
func (h *Host) bounded(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	_, err := await(h, ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) }, nil)
	return err
}

// loop is a goroutine that ends when it is told to.
type loop struct {
	stop chan struct{}
	done chan struct{}
}

func (r *run) spawn(f func(stop <-chan struct{})) *loop {
	l := &loop{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		f(l.stop)
	}()
	return l
}

// end stops a loop and waits until it has ended. Nil is a loop that never began.
func (l *loop) end() {
	if l == nil {
		return
	}
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	<-l.done
}

// pause waits; false when the loop is to stop or the run has ended.
func (r *run) pause(stop <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		// Both may be ready: then stop counts.
		select {
		case <-stop:
			return false
		default:
			return r.ctx.Err() == nil
		}
	case <-stop:
	case <-r.ctx.Done():
	}
	return false
}
