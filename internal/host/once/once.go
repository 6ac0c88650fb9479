// Package once makes creating calls repeatable: a key answers what it has made.
package once

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// maxKey is the length limit of an idempotency key in bytes.
const maxKey = 128

// Key is the idempotency key of a request; nil when there is none.
func Key(project, key, kind string, req any) (*store.Key, error) {
	if key == "" {
		return nil, nil
	}
	if len(key) > maxKey || strings.ContainsFunc(key, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return nil, api.Errorf(api.CodeInvalid, "%s: at most %d printable ASCII characters", api.HeaderIdempotencyKey, maxKey)
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("hash request: %w", err)
	}
	sum := sha256.Sum256(append([]byte(kind+"\n"), body...))
	return &store.Key{Project: project, Key: key, Hash: sum[:]}, nil
}

// Keys lets one call per key happen at a time. Safe for concurrent use.
type Keys struct {
	store *store.Store
	now   func() time.Time

	mu  sync.Mutex
	air map[string]chan struct{} // guarded by mu; closed when the flight is over
}

// New makes keys that are kept in a store.
func New(s *store.Store, now func() time.Time) *Keys {
	return &Keys{store: s, now: now, air: make(map[string]chan struct{})}
}

// enter waits for its turn at a key.
func (k *Keys) enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		k.mu.Lock()
		busy, taken := k.air[key]
		if !taken {
			over := make(chan struct{})
			k.air[key] = over
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.air, key)
				close(over)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Do answers the id of what the key has made, or makes it; make stores
// the key together with what it makes. A failed call leaves the key unused.
func (k *Keys) Do(ctx context.Context, key *store.Key, create func() (string, error)) (string, error) {
	if key == nil {
		return create()
	}
	leave, err := k.enter(ctx, key.Project+"\n"+key.Key)
	if err != nil {
		return "", err
	}
	defer leave()
	id, err := k.store.Resource(ctx, *key, k.now())
	if errors.Is(err, store.ErrNotFound) {
		return create()
	}
	return id, err
}
