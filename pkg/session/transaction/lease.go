package transaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// prolong notes that the lease holds for left since a moment before the store was
// asked, so that this host never thinks it longer than the store does.
func (r *run) prolong(asked time.Time, left time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until = asked.Add(left)
}

// remaining is how long the lease still holds without renewal.
func (r *run) remaining() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.until)
}

// renewals keeps the lease. A renewal that fails is tried again until the margin;
// only the store saying so, or the margin, loses the lease.
func (r *run) renewals(stop <-chan struct{}) {
	wait := r.h.Heartbeat
	for r.pause(stop, min(wait, max(r.remaining()-r.h.Margin, 0))) {
		limit := min(r.h.Heartbeat, r.remaining()-r.h.Margin)
		if limit <= 0 {
			r.lose(fmt.Errorf("the lease was not renewed until %s before it runs out", r.h.Margin))
			return
		}
		err := r.renew(limit)
		switch {
		case err == nil:
			wait = r.h.Heartbeat
		case errors.Is(err, session.ErrLost):
			r.lose(err)
			return
		default:
			if r.ctx.Err() == nil {
				r.warn("renew lease", err)
			}
			wait = r.h.Retry
		}
	}
}

func (r *run) renew(limit time.Duration) error {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	left, err := await(r.h, ctx, func(ctx context.Context) (time.Duration, error) {
		return r.h.Ports.Stores.Fences.Renew(ctx, r.fence, r.h.TTL)
	}, nil)
	if err == nil {
		r.prolong(asked, left)
	}
	return err
}

// heartbeats asks whether the machine lives. One that cannot be asked for as long
// as a lease lasts counts as lost.
func (r *run) heartbeats(stop <-chan struct{}) {
	lease := *r.lease
	for good := time.Now(); r.pause(stop, r.h.Heartbeat); {
		ctx, cancel := context.WithTimeout(r.ctx, r.h.Heartbeat)
		_, err := await(r.h, ctx, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, r.h.Ports.Sandbox.Heartbeat(ctx, r.fence.Tenure, lease)
		}, nil)
		cancel()
		switch {
		case err == nil:
			good = time.Now()
		case errors.Is(err, session.ErrSandboxLost), time.Since(good) >= r.h.TTL-r.h.Margin:
			r.lose(fmt.Errorf("heartbeat of the machine: %w", err))
			return
		case r.ctx.Err() == nil:
			r.warn("heartbeat", err)
		}
	}
}

// authorize is asked before each change outside the machine that cannot be part of
// the publication.
func (r *run) authorize(ctx context.Context) error {
	if err := r.aborted(); err != nil {
		return errors.Join(session.ErrLost, err)
	}
	err := r.h.Ports.Stores.Fences.Current(ctx, r.fence)
	if errors.Is(err, session.ErrLost) {
		r.lose(err)
	}
	return err
}
