// Package reconcile ends machines that nobody else ends: orphans, and what a host
// that died had allocated.
//
// Several hosts may reconcile one database at the same time. Everything here may
// stop at any point and be done again.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// Reaper is what is needed of a sandbox.
type Reaper interface {
	Reap(ctx context.Context, scope session.Scope, l session.Lease, reason session.Reason) error
}

// Config is a reconciler's. Zero values mean what is in brackets.
type Config struct {
	Stores      session.Stores
	Sandbox     Reaper
	Allocations session.Allocations
	// Interval between two passes [15 s].
	Interval time.Duration
	// Batch is how many orphans are reaped at the same time [16].
	Batch int
	// Timeout bounds one reaping [1 min]. An orphan is held for twice as long.
	Timeout time.Duration
	// First and Last are the shortest and the longest pause after a failure
	// [5 s, 1 h]; each failure doubles it.
	First, Last time.Duration
	// Settle is how old an intent must be before "no machine" is believed [1 h]: a
	// host that was paused may still allocate.
	Settle time.Duration
	// Observe is told the backlog after each pass, for metrics and an alert; it
	// may be nil.
	Observe func(session.Backlog)
	// Logger may be nil.
	Logger *slog.Logger
}

// Reconciler works through orphans and intents.
type Reconciler struct{ c Config }

// New fills in the defaults. It starts nothing.
func New(c Config) *Reconciler {
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&c.Interval, 15 * time.Second}, {&c.Timeout, time.Minute}, {&c.First, 5 * time.Second}, {&c.Last, time.Hour}, {&c.Settle, time.Hour}} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
	if c.Batch <= 0 {
		c.Batch = 16
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reconciler{c: c}
}

// Run makes passes until ctx ends. A pass that failed is logged; the next one is
// made all the same.
func (r *Reconciler) Run(ctx context.Context) error {
	t := time.NewTicker(r.c.Interval)
	defer t.Stop()
	for {
		if err := r.Pass(ctx); err != nil && ctx.Err() == nil {
			r.c.Logger.Error("reconcile sessions", "error", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Pass looks at every abandoned intent and at one batch of orphans. The errors of
// all that did not work are joined.
func (r *Reconciler) Pass(ctx context.Context) error {
	err := errors.Join(r.recover(ctx), r.reap(ctx))
	b, berr := r.c.Stores.Orphans.Backlog(ctx)
	if berr == nil && r.c.Observe != nil {
		r.c.Observe(b)
	}
	return errors.Join(err, berr)
}

// page is how many intents are read at once.
const page = 100

// recover turns machines of holders that are gone into orphans.
func (r *Reconciler) recover(ctx context.Context) error {
	var faults error
	for after := ""; ; {
		all, next, err := r.c.Stores.Intents.Abandoned(ctx, after, page)
		faults = errors.Join(faults, err)
		for _, in := range all {
			if err := r.intent(ctx, in); err != nil {
				faults = errors.Join(faults, fmt.Errorf("recover intent %s: %w", in.ID, err))
			}
		}
		if next == "" || ctx.Err() != nil {
			return faults
		}
		after = next
	}
}

// intent notes the machines of one intent as orphans, but for the one that the
// pointer names. The orphan is written before the intent goes.
func (r *Reconciler) intent(ctx context.Context, in session.Intent) error {
	p, err := r.c.Stores.Fences.Published(ctx, in.Tenure.Scope)
	if err != nil {
		return err // without the pointer nobody knows which machine is kept
	}
	call, cancel := context.WithTimeout(ctx, r.c.Timeout)
	leases, err := r.c.Allocations.Allocated(call, in)
	cancel()
	if err != nil {
		return fmt.Errorf("look for machines: %w", err)
	}
	if in.Lease != nil {
		leases = append(leases, *in.Lease)
	}
	kept := false
	for _, l := range leases {
		if retained(p, l) {
			kept = true
			continue
		}
		cause := errors.New("its holder is gone")
		if err := r.c.Stores.Orphans.Enqueue(ctx, session.NewOrphan(in.Tenure, l, session.ReasonLeaseLost, cause)); err != nil {
			return err
		}
		r.c.Logger.Warn("a machine has lost its holder", "session", in.Tenure.Scope.Session, "generation", in.Tenure.Generation, "runtime", l.RuntimeID)
	}
	if kept || len(leases) == 0 && in.Age < r.c.Settle {
		return nil
	}
	return r.c.Stores.Intents.Resolve(ctx, in.ID)
}

func retained(p *session.Publication, l session.Lease) bool {
	return p != nil && p.Retained != nil && p.Retained.Same(l)
}

// reap ends one batch of orphans, all at the same time, so that one that hangs
// keeps none waiting.
func (r *Reconciler) reap(ctx context.Context) error {
	all, err := r.c.Stores.Orphans.Claim(ctx, r.c.Batch, 2*r.c.Timeout)
	faults := make([]error, len(all)+1)
	faults[len(all)] = err
	var wg sync.WaitGroup
	for i, o := range all {
		wg.Go(func() {
			if err := r.orphan(ctx, o); err != nil {
				faults[i] = fmt.Errorf("reap orphan %s: %w", o.ID, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(faults...)
}

func (r *Reconciler) orphan(ctx context.Context, o session.Orphan) error {
	p, err := r.c.Stores.Fences.Published(ctx, o.Tenure.Scope)
	if err == nil && retained(p, o.Lease) {
		// Its host did not learn that it had been published.
		return r.c.Stores.Orphans.Resolve(ctx, o.ID)
	}
	if err == nil {
		err = r.end(ctx, o)
	}
	if err == nil {
		r.c.Logger.Info("orphan reaped", "session", o.Tenure.Scope.Session, "runtime", o.Lease.RuntimeID, "attempts", o.Attempts+1)
		return r.c.Stores.Orphans.Resolve(ctx, o.ID)
	}
	if ctx.Err() != nil {
		return err // this host stops; the orphan is due again soon
	}
	return errors.Join(err, r.c.Stores.Orphans.Failed(ctx, o.ID, err.Error(), r.Backoff(o.Attempts)))
}

// end reaps for at most the timeout, even when the sandbox does not listen.
func (r *Reconciler) end(ctx context.Context, o session.Orphan) error {
	ctx, cancel := context.WithTimeout(ctx, r.c.Timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.c.Sandbox.Reap(ctx, o.Tenure.Scope, o.Lease, o.Reason) }() // reaping twice at once is harmless
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Backoff is the pause after a failure that came after attempts others.
func (r *Reconciler) Backoff(attempts int) time.Duration {
	d := r.c.First
	for range min(attempts, 62) {
		if d >= r.c.Last/2 {
			return r.c.Last
		}
		d *= 2
	}
	return min(d, r.c.Last)
}
