package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Desktop is one row: what the API shows, and what only the host may know.
type Desktop struct {
	api.Desktop

	// LinkToken authenticates the host to guestd.
	LinkToken string
	// Source is what a clone goes on from; nil once it is proven, and after a
	// cold boot.
	Source *Source
	// GuestUser is whose desktop it is in the guest.
	GuestUser string
	// Asleep is the snapshot that a suspended desktop lies in.
	Asleep string
	// Rests says that the desktop was paused by its policy: the next call lets it
	// run.
	Rests bool
	// Restored is the disk that its first machine shall have; not written down.
	Restored *Restored
	// Attached is what the disk of a desktop that is inserted goes on from; zero:
	// nothing. It is written then alone, without the workspace: where to publish is
	// nobody's inheritance.
	Attached Attachment
	// Deleted is zero while the desktop exists; then the row is a tombstone.
	Deleted time.Time
}

// Key is an idempotency key with the hash of the request it came with.
type Key struct {
	Project string
	Key     string
	Hash    []byte
}

const desktopColumns = `body, link_token, source, guest_user, asleep, rests, deleted_ns`

// Insert adds desktops, and in the same transaction an idempotency key if there
// is one. ErrTaken when a name is in use in the project; then nothing is added.
func (s *Store) Insert(ctx context.Context, key *Key, all ...Desktop) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		ids := make([]string, 0, len(all))
		for _, d := range all {
			if err := insertDesktop(ctx, tx, d); err != nil {
				return err
			}
			ids = append(ids, d.ID)
		}
		if key == nil {
			return nil
		}
		return putKey(ctx, tx, *key, strings.Join(ids, ","), all[0].Created)
	})
}

func insertDesktop(ctx context.Context, tx *sql.Tx, d Desktop) error {
	body, source, err := encode(d)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx,
		`INSERT INTO desktops (id, project, name, state, incarnation, link_token, source, guest_user, body, created_ns)
		VALUES (?,?,?,?,?,?,?,?,?,?)`,
		d.ID, d.Project, d.Name, string(d.State), d.Incarnation, d.LinkToken, source, d.GuestUser, body, d.Created.UnixNano())
	if isUnique(err) {
		return fmt.Errorf("insert desktop %s: %w", d.Name, ErrTaken)
	}
	if err != nil {
		return fmt.Errorf("insert desktop %s: %w", d.ID, err)
	}
	if d.Attached.Ref == "" {
		return nil
	}
	return attach(ctx, tx, Attachment{Desktop: d.ID, Ref: d.Attached.Ref, Point: d.Attached.Point})
}

func encode(d Desktop) (body []byte, source string, err error) {
	body, err = json.Marshal(d.Desktop)
	if err == nil && d.Source != nil {
		var b []byte
		b, err = json.Marshal(d.Source)
		source = string(b)
	}
	if err != nil {
		return nil, "", fmt.Errorf("encode desktop %s: %w", d.ID, err)
	}
	return body, source, nil
}

// Update replaces all that may change of a desktop. A tombstone stays as it is.
func (s *Store) Update(ctx context.Context, d Desktop) error { return updateDesktop(ctx, s.db, d) }

// execer is a database or a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func updateDesktop(ctx context.Context, db execer, d Desktop) error {
	body, source, err := encode(d)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx,
		`UPDATE desktops SET state = ?, incarnation = ?, link_token = ?, source = ?, asleep = ?, rests = ?, body = ?
		WHERE id = ? AND deleted_ns = 0`,
		string(d.State), d.Incarnation, d.LinkToken, source, d.Asleep, d.Rests, body, d.ID)
	if err != nil {
		return fmt.Errorf("update desktop %s: %w", d.ID, err)
	}
	return nil
}

// Bury turns a desktop into a tombstone: its name is free, its link token is
// forgotten, its id stays known.
func (s *Store) Bury(ctx context.Context, id string, at time.Time) error {
	_, err := s.db.ExecContext(ctx,
		`UPDATE desktops SET deleted_ns = ?, link_token = '', source = '' WHERE id = ? AND deleted_ns = 0`, at.UnixNano(), id)
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
	return s.desktops(ctx, `deleted_ns = 0 ORDER BY created_ns, id`)
}

// Buried lists tombstones of a project by their ids; what is none is left out.
func (s *Store) Buried(ctx context.Context, project string, ids []string) ([]Desktop, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := []any{project}
	for _, id := range ids {
		args = append(args, id)
	}
	return s.desktops(ctx, `deleted_ns > 0 AND project = ? AND id IN (?`+strings.Repeat(",?", len(ids)-1)+`)`, args...)
}

func (s *Store) desktops(ctx context.Context, where string, args ...any) ([]Desktop, error) {
	rows, err := s.db.QueryContext(ctx, `SELECT `+desktopColumns+` FROM desktops WHERE `+where, args...)
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
		source  string
		deleted int64
	)
	err := row.Scan(&body, &d.LinkToken, &source, &d.GuestUser, &d.Asleep, &d.Rests, &deleted)
	if errors.Is(err, sql.ErrNoRows) {
		return Desktop{}, ErrNotFound
	}
	if err != nil {
		return Desktop{}, err
	}
	if err := json.Unmarshal(body, &d.Desktop); err != nil {
		return Desktop{}, fmt.Errorf("decode desktop: %w", err)
	}
	if source != "" {
		if err := json.Unmarshal([]byte(source), &d.Source); err != nil {
			return Desktop{}, fmt.Errorf("decode source of desktop: %w", err)
		}
	}
	if deleted > 0 {
		d.Deleted = time.Unix(0, deleted).UTC()
	}
	return d, nil
}
