package gate

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Lane is what the calls of one kind share.
type Lane struct {
	all  *Limiter
	each *Shares
	call time.Duration
}

// NewLane serves size calls at once, of one desktop at most size/share; queue and
// wait are as in NewLimiter. A call may take call; 0: as long as it takes.
func NewLane(size, share, queue int, wait, call time.Duration) *Lane {
	part := max(size/share, 1)
	return &Lane{
		all: NewLimiter(size, queue, wait), call: call,
		each: NewShares(func() *Limiter { return NewLimiter(part, queue, wait) }),
	}
}

// Enter waits for room for a call that concerns the desktop that key names; empty
// when it concerns none. The request comes back with the call's deadline. A nil
// lane always has room.
func (l *Lane) Enter(r *http.Request, key string) (_ *http.Request, leave func(), err error) {
	if l == nil {
		return r, func() {}, nil
	}
	ctx := r.Context()
	mine := func() {}
	if key != "" {
		if mine, err = l.each.Enter(ctx, key); err != nil {
			return r, nil, err
		}
	}
	out, err := l.all.Enter(ctx)
	if err != nil {
		mine()
		return r, nil, err
	}
	cancel := func() {}
	if l.call > 0 {
		ctx, cancel = context.WithTimeoutCause(ctx, l.call, api.Errorf(api.CodeDeadline, "not answered within %s", l.call))
		r = r.WithContext(ctx)
	}
	return r, func() {
		cancel()
		out()
		mine()
	}, nil
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
