// Package turns lets those who want the same thing come one after the other.
package turns

import (
	"context"
	"sync"
)

// Turns are taken by key. The zero value is ready. Safe for concurrent use.
type Turns struct {
	mu   sync.Mutex
	busy map[string]chan struct{} // guarded by mu; closed when the turn is over
}

// Enter waits for the turn at a key, or for the end of ctx, whose cause is then the
// error. Whoever has the turn calls leave, once.
func (t *Turns) Enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		leave, busy := t.take(key)
		if leave != nil {
			return leave, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Try is Enter that does not wait: false when somebody else has the turn.
func (t *Turns) Try(key string) (leave func(), ok bool) {
	leave, _ = t.take(key)
	return leave, leave != nil
}

// take gives the turn, or what is closed when somebody else's is over.
func (t *Turns) take(key string) (leave func(), busy <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.busy[key]; c != nil {
		return nil, c
	}
	if t.busy == nil {
		t.busy = make(map[string]chan struct{})
	}
	over := make(chan struct{})
	t.busy[key] = over
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.busy, key)
		close(over)
	}, nil
}
