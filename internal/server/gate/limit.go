package gate

import (
	"context"
	"sync"
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

// Shares bounds each desktop's part of what is served at once, so that calls that
// wait for one stuck guest leave room for those to others.
type Shares struct {
	each func() *Limiter

	mu sync.Mutex
	by map[string]*share // guarded by mu; only those in use
}

type share struct {
	*Limiter

	users int // inside and waiting; guarded by Shares.mu
}

// NewShares gives each key a limiter of its own, made by each.
func NewShares(each func() *Limiter) *Shares {
	return &Shares{each: each, by: make(map[string]*share)}
}

// Enter is Limiter.Enter for the limiter of key.
func (s *Shares) Enter(ctx context.Context, key string) (leave func(), err error) {
	s.mu.Lock()
	sh := s.by[key]
	if sh == nil {
		sh = &share{Limiter: s.each()}
		s.by[key] = sh
	}
	sh.users++
	s.mu.Unlock()
	out, err := sh.Enter(ctx)
	if err != nil {
		s.drop(key, sh)
		return nil, err
	}
	return func() {
		out()
		s.drop(key, sh)
	}, nil
}

func (s *Shares) drop(key string, sh *share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh.users--; sh.users == 0 {
		delete(s.by, key)
	}
}
