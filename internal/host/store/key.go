package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// KeyTTL is how long an idempotency key is remembered.
const KeyTTL = 24 * time.Hour

// Resource answers what a key was used for: the id of what it made. ErrNotFound
// when it is new, ErrKeyUsed when it came with another request.
func (s *Store) Resource(ctx context.Context, key Key, now time.Time) (string, error) {
	var (
		hash     []byte
		resource string
	)
	err := s.db.QueryRowContext(ctx, `SELECT hash, resource FROM keys WHERE project = ? AND key = ? AND created_ns > ?`,
		key.Project, key.Key, now.Add(-KeyTTL).UnixNano()).Scan(&hash, &resource)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", ErrNotFound
	case err != nil:
		return "", fmt.Errorf("look up idempotency key: %w", err)
	case !bytes.Equal(hash, key.Hash):
		return "", ErrKeyUsed
	}
	return resource, nil
}

// PutKey remembers what a key made, when that is no desktop or token.
func (s *Store) PutKey(ctx context.Context, key Key, resource string, now time.Time) error {
	return s.inTx(ctx, func(tx *sql.Tx) error { return putKey(ctx, tx, key, resource, now) })
}

func putKey(ctx context.Context, tx *sql.Tx, key Key, resource string, now time.Time) error {
	old := now.Add(-KeyTTL).UnixNano()
	if _, err := tx.ExecContext(ctx, `DELETE FROM keys WHERE created_ns <= ?`, old); err != nil {
		return fmt.Errorf("forget old idempotency keys: %w", err)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO keys (project, key, hash, resource, created_ns) VALUES (?,?,?,?,?)`,
		key.Project, key.Key, key.Hash, resource, now.UnixNano())
	if err != nil {
		return fmt.Errorf("remember idempotency key: %w", err)
	}
	return nil
}
