package host

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// maxKey is the length limit of an idempotency key in bytes.
const maxKey = 128

// newKey is the idempotency key of a request; nil when there is none.
func newKey(project, key, kind string, req any) (*store.Key, error) {
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

// flights lets one call per key happen at a time.
type flights struct {
	mu  sync.Mutex
	air map[string]chan struct{} // guarded by mu; closed when the flight is over
}

func newFlights() *flights { return &flights{air: make(map[string]chan struct{})} }

// enter waits for its turn at a key.
func (f *flights) enter(ctx context.Context, key string) (leave func(), err error) {
	for {
		f.mu.Lock()
		busy, taken := f.air[key]
		if !taken {
			over := make(chan struct{})
			f.air[key] = over
			f.mu.Unlock()
			return func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				delete(f.air, key)
				close(over)
			}, nil
		}
		f.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// idempotent answers the id of what the key has made, or makes it; make stores
// the key together with what it makes. A failed call leaves the key unused.
func (h *Host) idempotent(ctx context.Context, key *store.Key, create func() (string, error)) (string, error) {
	if key == nil {
		return create()
	}
	leave, err := h.once.enter(ctx, key.Project+"\n"+key.Key)
	if err != nil {
		return "", err
	}
	defer leave()
	id, err := h.store.Resource(ctx, *key, h.cfg.Now())
	if errors.Is(err, store.ErrNotFound) {
		return create()
	}
	return id, err
}
