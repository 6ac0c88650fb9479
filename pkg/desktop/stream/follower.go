package stream

import (
	"context"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// retryAfter is the pause after a display that was away.
const retryAfter = 500 * time.Millisecond

// follower keeps the newest frame of a source.
type follower struct {
	source desktop.Source
	kick   chan<- struct{} // gets a token when there is a frame

	mu     sync.Mutex
	newest *desktop.Frame // guarded by mu; nil: taken
}

// run follows the source until ctx ends.
func (f *follower) run(ctx context.Context) {
	var seen uint64
	for begun := false; ctx.Err() == nil; {
		fr, err := f.next(ctx, begun, seen)
		if err != nil {
			select {
			case <-time.After(retryAfter):
			case <-ctx.Done():
			}
			continue
		}
		begun, seen = true, fr.Seq
		f.mu.Lock()
		f.newest = fr
		f.mu.Unlock()
		select {
		case f.kick <- struct{}{}:
		default:
		}
	}
}

// next waits for a frame; the first may be one from before.
func (f *follower) next(ctx context.Context, begun bool, seen uint64) (*desktop.Frame, error) {
	if !begun {
		return f.source.Frame(ctx)
	}
	return f.source.Next(ctx, seen)
}

// take returns a frame that was not taken before, or nil.
func (f *follower) take() *desktop.Frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	fr := f.newest
	f.newest = nil
	return fr
}
