package gate

import (
	"context"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Limiter bounds how many requests are served at once, and how many wait.
type Limiter struct {
	slots chan struct{}
	queue chan struct{}
	wait  time.Duration
}

// NewLimiter serves active at once and lets queue more wait, each for at most
// wait.
func NewLimiter(active, queue int, wait time.Duration) *Limiter {
	return &Limiter{slots: make(chan struct{}, active), queue: make(chan struct{}, queue), wait: wait}
}

// Enter waits for a slot. The error has the code rate_limited when the queue is
// full or the wait too long.
func (l *Limiter) Enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-l.slots }
	select {
	case l.slots <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case l.queue <- struct{}{}:
		defer func() { <-l.queue }()
	default:
		return nil, api.Errorf(api.CodeRateLimited,
			"%d requests are being served and %d wait", cap(l.slots), cap(l.queue))
	}
	timer := time.NewTimer(l.wait)
	defer timer.Stop()
	select {
	case l.slots <- struct{}{}:
		return leave, nil
	case <-timer.C:
		return nil, api.Errorf(api.CodeRateLimited, "no room within %s: %d requests are being served", l.wait, cap(l.slots))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
