package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// Intents implements session.Intents.
type Intents struct{ s *Store }

var _ session.Intents = (*Intents)(nil)

// Begin implements session.Intents.
func (i *Intents) Begin(ctx context.Context, intent session.Intent) error {
	tenure, err := json.Marshal(intent.Tenure)
	if err = errors.Join(err, intent.Tenure.Validate()); err == nil {
		_, err = i.s.exec(ctx, query(`INSERT INTO session_intents (id, scope_key, generation, tenure_json, begun_at_ms)
			VALUES ($1, $2, $3, $4, {now}) ON CONFLICT (id) DO NOTHING`,
			intent.ID, intent.Tenure.Scope.Key(), intent.Tenure.Generation, string(tenure)))
	}
	if err != nil {
		return fmt.Errorf("begin intent %s: %w", intent.ID, err)
	}
	return nil
}

// Bind implements session.Intents.
func (i *Intents) Bind(ctx context.Context, id string, l session.Lease) error {
	lease, err := json.Marshal(l)
	if err = errors.Join(err, l.Validate()); err == nil {
		var n int64
		n, err = i.s.exec(ctx, query(`UPDATE session_intents SET lease_json = $2 WHERE id = $1`, id, string(lease)))
		if err == nil && n == 0 {
			err = session.ErrNotFound
		}
	}
	if err != nil {
		return fmt.Errorf("bind intent %s: %w", id, err)
	}
	return nil
}

// Resolve implements session.Intents.
func (i *Intents) Resolve(ctx context.Context, id string) error {
	if _, err := i.s.exec(ctx, query(`DELETE FROM session_intents WHERE id = $1`, id)); err != nil {
		return fmt.Errorf("resolve intent %s: %w", id, err)
	}
	return nil
}

// Abandoned implements session.Intents.
func (i *Intents) Abandoned(ctx context.Context, after string, limit int) (page []session.Intent, next string, err error) {
	if limit < 1 {
		return nil, "", fmt.Errorf("list intents: limit %d must be positive", limit)
	}
	rows := 0
	err = i.s.each(ctx, query(`SELECT i.id, i.tenure_json, i.lease_json, {now} - i.begun_at_ms FROM session_intents i
		WHERE i.id > $1 AND NOT EXISTS (SELECT 1 FROM session_fences f
			WHERE f.scope_key = i.scope_key AND f.generation = i.generation AND f.expires_at_ms > {now})
		ORDER BY i.id LIMIT $2`, after, limit),
		func(scan func(dest ...any) error) error {
			rows++
			intent, err := readIntent(scan)
			next = intent.ID
			if err == nil {
				page = append(page, intent)
			}
			return err
		})
	if rows < limit {
		next = ""
	}
	if err != nil {
		err = fmt.Errorf("list intents: %w", err)
	}
	return page, next, err
}

// readIntent gives the id of a damaged row too.
func readIntent(scan func(dest ...any) error) (session.Intent, error) {
	var (
		in     session.Intent
		tenure string
		lease  sql.NullString
		age    int64
	)
	if err := scan(&in.ID, &tenure, &lease, &age); err != nil {
		return in, err
	}
	in.Age = max(time.Duration(age)*time.Millisecond, 0)
	err := strict(tenure, &in.Tenure)
	if err == nil {
		err = in.Tenure.Validate()
	}
	if err == nil && lease.Valid {
		in.Lease = &session.Lease{}
		if err = strict(lease.String, in.Lease); err == nil {
			err = in.Lease.Validate()
		}
	}
	if err == nil && session.NewIntent(in.Tenure).ID != in.ID {
		err = errors.New("the id is another intent's")
	}
	if err != nil {
		return session.Intent{ID: in.ID}, fmt.Errorf("intent %s: %w: %w", in.ID, session.ErrCorrupt, err)
	}
	return in, nil
}

// strict decodes one JSON value and nothing beside it.
func strict(text string, into any) error {
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("something follows the value")
	}
	return nil
}
