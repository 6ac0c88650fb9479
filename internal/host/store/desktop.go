package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Desktop is one row: what the API shows, and what only the host may know.
type Desktop struct {
	api.Desktop

	// LinkToken authenticates the host to guestd.
	LinkToken string
	// GuestUser is whose desktop it is in the guest.
	GuestUser string
	// Deleted is zero while the desktop exists; then the row is a tombstone.
	Deleted time.Time
}

// Key is an idempotency key with the hash of the request it came with.
type Key struct {
	Project string
	Key     string
	Hash    []byte
}

const desktopColumns = `body, link_token, guest_user, deleted_ns`

// Insert adds a desktop, and in the same transaction its idempotency key if
// there is one. ErrTaken when the name is in use in the project.
func (s *Store) Insert(ctx context.Context, d Desktop, key *Key) error {
	body, err := json.Marshal(d.Desktop)
	if err != nil {
		return fmt.Errorf("encode desktop %s: %w", d.ID, err)
	}
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			`INSERT INTO desktops (id, project, name, state, incarnation, link_token, guest_user, body, created_ns)
			VALUES (?,?,?,?,?,?,?,?,?)`,
			d.ID, d.Project, d.Name, string(d.State), d.Incarnation, d.LinkToken, d.GuestUser, body, d.Created.UnixNano())
		if isUnique(err) {
			return fmt.Errorf("insert desktop %s: %w", d.Name, ErrTaken)
		}
		if err != nil {
			return fmt.Errorf("insert desktop %s: %w", d.ID, err)
		}
		if key == nil {
			return nil
		}
		return putKey(ctx, tx, *key, d.ID, d.Created)
	})
}

// Update replaces what the API shows of a desktop. A tombstone stays as it is.
func (s *Store) Update(ctx context.Context, d api.Desktop) error {
	body, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode desktop %s: %w", d.ID, err)
	}
	_, err = s.db.ExecContext(ctx,
		`UPDATE desktops SET state = ?, body = ? WHERE id = ? AND deleted_ns = 0`, string(d.State), body, d.ID)
	if err != nil {
		return fmt.Errorf("update desktop %s: %w", d.ID, err)
	}
	return nil
}

// Bury turns a desktop into a tombstone: its name is free, its link token is
// forgotten, its id stays known.
func (s *Store) Bury(ctx context.Context, id string, at time.Time) error {
	_, err := s.db.ExecContext(ctx,
		`UPDATE desktops SET deleted_ns = ?, link_token = '' WHERE id = ? AND deleted_ns = 0`, at.UnixNano(), id)
	if err != nil {
		return fmt.Errorf("bury desktop %s: %w", id, err)
	}
	return nil
}

// Desktop finds a desktop of a project by id, or by name when it still exists;
// a tombstone is found by its id, or by the newest one of its name. ErrNotFound
// when there never was one.
func (s *Store) Desktop(ctx context.Context, project, ref string) (Desktop, error) {
	row := s.db.QueryRowContext(ctx, `SELECT `+desktopColumns+` FROM desktops
		WHERE project = ? AND (id = ? OR name = ?)
		ORDER BY deleted_ns > 0, id = ? DESC, deleted_ns DESC LIMIT 1`, project, ref, ref, ref)
	d, err := scanDesktop(row)
	if err != nil {
		return Desktop{}, fmt.Errorf("find desktop %q: %w", ref, err)
	}
	return d, nil
}

// Desktops lists every desktop that exists, oldest first.
func (s *Store) Desktops(ctx context.Context) ([]Desktop, error) {
	rows, err := s.db.QueryContext(ctx,
		`SELECT `+desktopColumns+` FROM desktops WHERE deleted_ns = 0 ORDER BY created_ns, id`)
	if err != nil {
		return nil, fmt.Errorf("list desktops: %w", err)
	}
	defer rows.Close()
	var all []Desktop
	for rows.Next() {
		d, err := scanDesktop(rows)
		if err != nil {
			return nil, fmt.Errorf("list desktops: %w", err)
		}
		all = append(all, d)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list desktops: %w", err)
	}
	return all, nil
}

type scanner interface{ Scan(dest ...any) error }

func scanDesktop(row scanner) (Desktop, error) {
	var (
		d       Desktop
		body    []byte
		deleted int64
	)
	err := row.Scan(&body, &d.LinkToken, &d.GuestUser, &deleted)
	if errors.Is(err, sql.ErrNoRows) {
		return Desktop{}, ErrNotFound
	}
	if err != nil {
		return Desktop{}, err
	}
	if err := json.Unmarshal(body, &d.Desktop); err != nil {
		return Desktop{}, fmt.Errorf("decode desktop: %w", err)
	}
	if deleted > 0 {
		d.Deleted = time.Unix(0, deleted).UTC()
	}
	return d, nil
}
