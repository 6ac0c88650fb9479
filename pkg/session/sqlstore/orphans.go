package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// Orphans implements session.Orphans.
type Orphans struct{ s *Store }

var _ session.Orphans = (*Orphans)(nil)

// Enqueue implements session.Orphans.
func (o *Orphans) Enqueue(ctx context.Context, orphan session.Orphan) error {
	tenure, err1 := json.Marshal(orphan.Tenure)
	lease, err2 := json.Marshal(orphan.Lease)
	err := errors.Join(orphan.Validate(), err1, err2)
	if err == nil {
		_, err = o.s.exec(ctx, query(`INSERT INTO session_orphans (id, tenure_json, lease_json, reason, last_error, enqueued_at_ms, next_attempt_at_ms)
			VALUES ($1, $2, $3, $4, $5, {now}, {now})
			ON CONFLICT (id) DO UPDATE SET last_error = excluded.last_error`,
			orphan.ID, string(tenure), string(lease), string(orphan.Reason), session.ErrorText(orphan.LastError)))
	}
	if err != nil {
		return fmt.Errorf("enqueue orphan %s: %w", orphan.ID, err)
	}
	return nil
}

// Claim implements session.Orphans.
func (o *Orphans) Claim(ctx context.Context, limit int, hold time.Duration) ([]session.Orphan, error) {
	if limit < 1 || hold <= 0 {
		return nil, fmt.Errorf("claim orphans: limit %d and hold %s must be positive", limit, hold)
	}
	var all []session.Orphan
	err := o.s.each(ctx, query(`WITH due AS MATERIALIZED (
			SELECT id FROM session_orphans WHERE next_attempt_at_ms <= {now} ORDER BY next_attempt_at_ms, id LIMIT $1 {skip locked})
		UPDATE session_orphans SET next_attempt_at_ms = {now} + $2 WHERE id IN (SELECT id FROM due)
		RETURNING id, CAST(attempts AS TEXT), tenure_json, lease_json, reason, last_error, {now} - enqueued_at_ms`,
		limit, max(hold.Milliseconds(), 1)),
		func(scan func(dest ...any) error) error {
			orphan, err := readOrphan(scan)
			if err == nil {
				all = append(all, orphan)
			}
			return err
		})
	// The statement answers in any order.
	slices.SortFunc(all, func(a, b session.Orphan) int {
		return cmp.Or(cmp.Compare(a.Attempts, b.Attempts), cmp.Compare(b.Age, a.Age), cmp.Compare(a.ID, b.ID))
	})
	if err != nil {
		err = fmt.Errorf("claim orphans: %w", err)
	}
	return all, err
}

func readOrphan(scan func(dest ...any) error) (session.Orphan, error) {
	var (
		o                       session.Orphan
		attempts, tenure, lease string
		age                     int64
	)
	if err := scan(&o.ID, &attempts, &tenure, &lease, &o.Reason, &o.LastError, &age); err != nil {
		return o, err
	}
	o.Age = max(time.Duration(age)*time.Millisecond, 0)
	err := errors.Join(strict(attempts, &o.Attempts), strict(tenure, &o.Tenure), strict(lease, &o.Lease))
	if err == nil {
		err = o.Validate()
	}
	if err == nil && session.NewOrphan(o.Tenure, o.Lease, o.Reason, nil).ID != o.ID {
		err = errors.New("the id is another orphan's")
	}
	if err != nil {
		return session.Orphan{}, fmt.Errorf("orphan %s: %w: %w", o.ID, session.ErrCorrupt, err)
	}
	return o, nil
}

// Resolve implements session.Orphans.
func (o *Orphans) Resolve(ctx context.Context, id string) error {
	if _, err := o.s.exec(ctx, query(`DELETE FROM session_orphans WHERE id = $1`, id)); err != nil {
		return fmt.Errorf("resolve orphan %s: %w", id, err)
	}
	return nil
}

// Failed implements session.Orphans.
func (o *Orphans) Failed(ctx context.Context, id, lastError string, delay time.Duration) error {
	n, err := o.s.exec(ctx, query(`UPDATE session_orphans SET attempts = attempts + 1, last_error = $2, next_attempt_at_ms = {now} + $3 WHERE id = $1`,
		id, session.ErrorText(lastError), max(delay.Milliseconds(), 0)))
	if err == nil && n == 0 {
		err = session.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("count attempt on orphan %s: %w", id, err)
	}
	return nil
}

// Backlog implements session.Orphans.
func (o *Orphans) Backlog(ctx context.Context) (session.Backlog, error) {
	var b session.Backlog
	var age int64
	_, err := o.s.one(ctx, query(`SELECT count(*), coalesce(max(attempts), 0), coalesce({now} - min(enqueued_at_ms), 0) FROM session_orphans`),
		&b.Total, &b.MaxAttempts, &age)
	if err != nil {
		return session.Backlog{}, fmt.Errorf("count orphans: %w", err)
	}
	b.Oldest = max(time.Duration(age)*time.Millisecond, 0)
	return b, nil
}
