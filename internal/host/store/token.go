package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

const tokenColumns = `id, name, project, scopes, created_ns`

// InsertToken adds a token by the hash of its secret, and its idempotency key
// if there is one. t.Secret is not stored.
func (s *Store) InsertToken(ctx context.Context, t api.Token, hash []byte, key *Key) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`INSERT INTO tokens (id, hash, name, project, scopes, created_ns) VALUES (?,?,?,?,?,?)`,
			t.ID, hash, t.Name, t.Project, strings.Join(t.Scopes, ","), t.Created.UnixNano())
		if err != nil {
			return fmt.Errorf("insert token: %w", err)
		}
		if key == nil {
			return nil
		}
		return putKey(ctx, tx, *key, t.ID, t.Created)
	})
}

// TokenByHash finds a token by the hash of its secret.
func (s *Store) TokenByHash(ctx context.Context, hash []byte) (api.Token, error) {
	return scanToken(s.db.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE hash = ?`, hash))
}

// Token finds a token by id.
func (s *Store) Token(ctx context.Context, id string) (api.Token, error) {
	return scanToken(s.db.QueryRowContext(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE id = ?`, id))
}

// Tokens lists all tokens, oldest first.
func (s *Store) Tokens(ctx context.Context) ([]api.Token, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+tokenColumns+` FROM tokens ORDER BY created_ns, id`)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	defer rows.Close()
	all := []api.Token{}
	for rows.Next() {
		t, err := scanToken(rows)
		if err != nil {
			return nil, fmt.Errorf("list tokens: %w", err)
		}
		all = append(all, t)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	return all, nil
}

// DeleteToken removes a token; ErrNotFound when there is none.
func (s *Store) DeleteToken(ctx context.Context, id string) error {
	res, err := s.db.ExecContext(ctx, `DELETE FROM tokens WHERE id = ?`, id)
	if err != nil {
		return fmt.Errorf("delete token: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("delete token: %w", err)
	}
	if n == 0 {
		return ErrNotFound
	}
	return nil
}

func scanToken(row scanner) (api.Token, error) {
	var (
		t       api.Token
		scopes  string
		created int64
	)
	err := row.Scan(&t.ID, &t.Name, &t.Project, &scopes, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return api.Token{}, ErrNotFound
	}
	if err != nil {
		return api.Token{}, fmt.Errorf("read token: %w", err)
	}
	t.Scopes = strings.Split(scopes, ",")
	t.Created = time.Unix(0, created).UTC()
	return t, nil
}
