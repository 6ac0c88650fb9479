// Package once makes creating calls repeatable: a key answers what it has made.
package once

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/x/turns"
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

	air turns.Turns // of calls in flight
}

// New makes keys that are kept in a store.
func New(s *store.Store, now func() time.Time) *Keys {
	return &Keys{store: s, now: now}
}

// Do answers the id of what the key has made, or makes it; make stores
// the key together with what it makes. A failed call leaves the key unused.
func (k *Keys) Do(ctx context.Context, key *store.Key, create func() (string, error)) (string, error) {
	if key == nil {
		return create()
	}
	leave, err := k.air.Enter(ctx, key.Project+"\n"+key.Key)
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
