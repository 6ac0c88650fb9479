package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
)

const (
	insertRow = `INSERT INTO usage_rows
		(incarnation, kind, start_ns, end_ns, value, project, session, agent, desktop, recorded_ns)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (incarnation, kind, start_ns) DO NOTHING`
	upsertMark = `INSERT INTO usage_marks (incarnation, host, version, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (incarnation) DO UPDATE SET host = excluded.host, version = excluded.version, body = excluded.body
		WHERE usage_marks.version < excluded.version`
	deleteMark = `DELETE FROM usage_marks WHERE incarnation = $1`
	selectRows = `SELECT id, incarnation, kind, start_ns, end_ns, value, project, session, agent, desktop, recorded_ns, acked_ns
		FROM usage_rows WHERE id > $1 AND ($2 = '' OR project = $2) AND ($3 = '' OR session = $3)
		AND start_ns >= $4 AND start_ns < $5`
	ackRow = `UPDATE usage_rows SET acked_ns = $1 WHERE id = $2 AND acked_ns = 0 AND ($3 = '' OR project = $3)`
)

// Commit implements billing.Ledger.
func (s *Store) Commit(ctx context.Context, b billing.Batch) (added int, err error) {
	for _, r := range b.Rows {
		if err := r.Validate(); err != nil {
			return 0, fmt.Errorf("commit use of %s: %w", r.Incarnation, err)
		}
	}
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		added = 0
		if s.first != "" {
			if _, err := tx.ExecContext(ctx, s.first); err != nil {
				return err
			}
		}
		if added, err = insertRows(ctx, tx, b.Rows); err != nil {
			return err
		}
		for _, m := range b.Marks {
			if _, err := tx.ExecContext(ctx, upsertMark, m.Incarnation, m.Host, m.Version, m.Body); err != nil {
				return err
			}
		}
		for _, inc := range b.Ended {
			if _, err := tx.ExecContext(ctx, deleteMark, inc); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("commit use: %w", err)
	}
	return added, nil
}

func insertRows(ctx context.Context, tx *sql.Tx, rows []billing.Row) (added int, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	insert, err := tx.PrepareContext(ctx, insertRow)
	if err != nil {
		return 0, err
	}
	defer insert.Close() //nolint:errcheck // the transaction's end tells
	now := time.Now().UnixNano()
	for _, r := range rows {
		res, err := insert.ExecContext(ctx, r.Incarnation, string(r.Kind), r.Start.UnixNano(), r.End.UnixNano(), r.Value,
			r.Owner.Project, r.Owner.Session, r.Owner.Agent, r.Owner.Desktop, now)
		if err != nil {
			return 0, err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return 0, err
		}
		added += int(n)
	}
	return added, nil
}

// Marks implements billing.Ledger.
func (s *Store) Marks(ctx context.Context, host string) ([]billing.Mark, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT incarnation, host, version, body FROM usage_marks WHERE host = $1 ORDER BY incarnation`, host)
	if err != nil {
		return nil, fmt.Errorf("list marks of use: %w", err)
	}
	defer rows.Close()
	var list []billing.Mark
	for rows.Next() {
		var m billing.Mark
		if err := rows.Scan(&m.Incarnation, &m.Host, &m.Version, &m.Body); err != nil {
			return nil, fmt.Errorf("read mark of use: %w", err)
		}
		list = append(list, m)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list marks of use: %w", err)
	}
	return list, nil
}

// Pull implements billing.Ledger.
func (s *Store) Pull(ctx context.Context, q billing.Query) ([]billing.Row, error) {
	return s.list(ctx, q, selectRows+` AND acked_ns = 0 ORDER BY id LIMIT $6`)
}

// List implements billing.Ledger.
func (s *Store) List(ctx context.Context, q billing.Query) ([]billing.Row, error) {
	return s.list(ctx, q, selectRows+` ORDER BY id LIMIT $6`)
}

func (s *Store) list(ctx context.Context, q billing.Query, text string) ([]billing.Row, error) {
	limit, err := q.Page()
	if err != nil {
		return nil, err
	}
	from, to := int64(-1)<<63, int64(1<<63-1)
	if !q.From.IsZero() {
		from = q.From.UnixNano()
	}
	if !q.To.IsZero() {
		to = q.To.UnixNano()
	}
	rows, err := s.db.QueryContext(ctx, text, q.Since, q.Project, q.Session, from, to, limit)
	if err != nil {
		return nil, fmt.Errorf("list use: %w", err)
	}
	defer rows.Close()
	list := []billing.Row{}
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("read use: %w", err)
		}
		list = append(list, r)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list use: %w", err)
	}
	return list, nil
}

func scan(rows *sql.Rows) (billing.Row, error) {
	var (
		r                           billing.Row
		start, end, recorded, acked int64
	)
	err := rows.Scan(&r.ID, &r.Incarnation, &r.Kind, &start, &end, &r.Value,
		&r.Owner.Project, &r.Owner.Session, &r.Owner.Agent, &r.Owner.Desktop, &recorded, &acked)
	if err != nil {
		return billing.Row{}, err
	}
	r.Start, r.End, r.Recorded = date(start), date(end), date(recorded)
	if acked != 0 {
		r.Acked = date(acked)
	}
	if err := r.Validate(); err != nil {
		return billing.Row{}, fmt.Errorf("row %d: %w", r.ID, err)
	}
	return r, nil
}

func date(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// Ack implements billing.Ledger.
func (s *Store) Ack(ctx context.Context, project string, ids []int64) (acked int, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		acked = 0
		now := time.Now().UnixNano()
		for _, id := range ids {
			res, err := tx.ExecContext(ctx, ackRow, now, id, project)
			if err != nil {
				return err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return err
			}
			acked += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("ack use: %w", err)
	}
	return acked, nil
}
