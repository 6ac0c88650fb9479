package leases

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/deskfork/deskfork/internal/x/sqlitefile"
	"github.com/deskfork/deskfork/pkg/session"
)

// FileName is the database in the data directory.
const FileName = "leases.db"

//go:embed migrations/*.sql
var migrations embed.FS

// state is how far an incarnation has got.
type state string

const (
	making state = "making" // asked for; there may be a machine
	leased state = "leased"
	sealed state = "sealed" // suspended: kept until it is ended or not needed any more
	ending state = "ending" // could not be ended yet
	ended  state = "ended"
	failed state = "failed" // was never there: may be asked for again
)

// row is one incarnation.
type row struct {
	id       int64
	project  string
	tenure   session.Tenure
	request  string
	lease    *session.Lease // nil while there is none
	source   string         // runtime id of the incarnation that a sealed one was
	state    state
	due      time.Time // when the lease runs out, or the next attempt is made
	attempts int
}

// Book is the database of incarnations. Safe for concurrent use.
type Book struct{ db *sql.DB }

// OpenBook opens or makes a database file (mode 0600) and brings it up to date.
func OpenBook(ctx context.Context, path string) (*Book, error) {
	db, err := sqlitefile.Open(path, sqlitefile.Full)
	if err != nil {
		return nil, fmt.Errorf("sandboxes: %w", err)
	}
	sub, err := fs.Sub(migrations, "migrations")
	if err == nil {
		var p *goose.Provider
		if p, err = goose.NewProvider(goose.DialectSQLite3, db, sub); err == nil {
			_, err = p.Up(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("migrate database of sandboxes: %w", err), db.Close())
	}
	return &Book{db: db}, nil
}

// Close closes the database.
func (b *Book) Close() error {
	if err := b.db.Close(); err != nil {
		return fmt.Errorf("close database of sandboxes: %w", err)
	}
	return nil
}

// begin writes down that a machine is asked for, or finds what was asked for before
// under the same generation. A *StaleError when a newer one was seen. What had failed,
// or was left half made by another process, begins anew.
func (b *Book) begin(ctx context.Context, r row) (row, error) {
	err := b.inTx(ctx, func(tx *sql.Tx) error {
		scope := scopeKey(r.tenure.Scope)
		var newest sql.NullInt64
		err := tx.QueryRowContext(ctx, `SELECT max(generation) FROM sandboxes WHERE project = ? AND scope = ?`, r.project, scope).Scan(&newest)
		if err != nil {
			return err
		}
		if newest.Int64 > r.tenure.Generation {
			return &StaleError{Current: newest.Int64}
		}
		if newest.Int64 == r.tenure.Generation {
			all, err := query(ctx, tx, `project = ? AND scope = ? AND generation = ? ORDER BY id DESC LIMIT 1`, r.project, scope, r.tenure.Generation)
			if err != nil {
				return err
			}
			if old := all[0]; old.state != failed {
				r = old
				return nil
			}
			r.id = all[0].id
			_, err = tx.ExecContext(ctx, `UPDATE sandboxes SET state = ?, request = ?, owner = ?, due_ms = ?, attempts = 0 WHERE id = ?`,
				making, r.request, r.tenure.Owner, r.due.UnixMilli(), r.id)
			return err
		}
		r.id, err = insert(ctx, tx, r)
		return err
	})
	if err != nil {
		return row{}, fmt.Errorf("note sandbox: %w", err)
	}
	return r, nil
}

func insert(ctx context.Context, tx *sql.Tx, r row) (int64, error) {
	runtime, lease, err := leaseColumns(r.lease)
	if err != nil {
		return 0, err
	}
	res, err := tx.ExecContext(ctx,
		`INSERT INTO sandboxes (project, scope, session, owner, generation, request, runtime, lease, source, state, due_ms) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
		r.project, scopeKey(r.tenure.Scope), r.tenure.Scope.Key(), r.tenure.Owner, r.tenure.Generation, r.request, runtime, lease, r.source, r.state, r.due.UnixMilli())
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func leaseColumns(l *session.Lease) (runtime, lease sql.NullString, err error) {
	if l == nil {
		return runtime, lease, nil
	}
	text, err := json.Marshal(l)
	return sql.NullString{String: l.RuntimeID, Valid: true}, sql.NullString{String: string(text), Valid: true}, err
}

// bind gives an incarnation its machine; session.ErrNotFound when its time ran out
// meanwhile.
func (b *Book) bind(ctx context.Context, r row) error {
	runtime, lease, err := leaseColumns(r.lease)
	if err != nil {
		return err
	}
	res, err := b.db.ExecContext(ctx, `UPDATE sandboxes SET runtime = ?, lease = ?, state = ?, due_ms = ?, attempts = 0 WHERE id = ? AND state = ?`,
		runtime, lease, leased, r.due.UnixMilli(), r.id, making)
	if err != nil {
		return fmt.Errorf("note machine: %w", err)
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = fmt.Errorf("the machine came too late: %w", session.ErrNotFound)
	}
	return err
}

// turn changes what becomes of an incarnation.
func (b *Book) turn(ctx context.Context, r row) error {
	return b.exec(ctx, "note state of a sandbox", `UPDATE sandboxes SET state = ?, due_ms = ?, attempts = ? WHERE id = ?`, r.state, r.due.UnixMilli(), r.attempts, r.id)
}

// renew prolongs a lease that is held; held is false when it is not.
func (b *Book) renew(ctx context.Context, id int64, due time.Time) (held bool, err error) {
	res, err := b.db.ExecContext(ctx, `UPDATE sandboxes SET due_ms = ? WHERE id = ? AND state = ?`, due.UnixMilli(), id, leased)
	if err != nil {
		return false, fmt.Errorf("renew lease: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// takeOver gives leases until a time that would run out before, or not for longer than
// anybody could have asked for. What was superseded stays due.
func (b *Book) takeOver(ctx context.Context, until, most time.Time) error {
	return b.exec(ctx, "take leases over", `UPDATE sandboxes SET due_ms = ? WHERE state = ? AND due_ms <> 0 AND (due_ms < ? OR due_ms > ?)`,
		until.UnixMilli(), leased, until.UnixMilli(), most.UnixMilli())
}

// seal ends an incarnation in favour of the suspended one that it became.
func (b *Book) seal(ctx context.Context, was, is row) error {
	err := b.inTx(ctx, func(tx *sql.Tx) error {
		if was.lease.Same(*is.lease) {
			_, err := tx.ExecContext(ctx, `UPDATE sandboxes SET state = ?, source = runtime WHERE id = ?`, sealed, was.id)
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE sandboxes SET state = ? WHERE id = ?`, ended, was.id); err != nil {
			return err
		}
		_, err := insert(ctx, tx, is)
		return err
	})
	if err != nil {
		return fmt.Errorf("note suspended sandbox: %w", err)
	}
	return nil
}

// supersede makes what a new machine replaces due: those of older generations of its
// scope that still run, and, when it went on from a suspended one, the others of its
// session that are suspended under older generations.
func (b *Book) supersede(ctx context.Context, r row, resumed *session.Lease) error {
	err := b.exec(ctx, "end older generations", `UPDATE sandboxes SET due_ms = 0 WHERE project = ? AND scope = ? AND generation < ? AND state IN (?, ?)`,
		r.project, scopeKey(r.tenure.Scope), r.tenure.Generation, leased, making)
	if err != nil || resumed == nil {
		return err
	}
	return b.exec(ctx, "end older suspended sandboxes", `UPDATE sandboxes SET state = ?, due_ms = 0 WHERE project = ? AND session = ? AND state = ? AND runtime <> ?
		AND id < (SELECT id FROM sandboxes WHERE project = ? AND runtime = ?)`,
		ending, r.project, r.tenure.Scope.Key(), sealed, resumed.RuntimeID, r.project, resumed.RuntimeID)
}

// forget drops rows that nobody needs any more: of machines that are gone since
// before, unless they hold the newest generation of their scope and are younger
// than the longer time.
func (b *Book) forget(ctx context.Context, before, long time.Time) error {
	gone := b.exec(ctx, "forget programs of sandboxes", `DELETE FROM secrets WHERE runtime NOT IN (SELECT runtime FROM sandboxes WHERE state IN (?, ?) AND runtime IS NOT NULL)`, leased, ending)
	return errors.Join(gone, b.exec(ctx, "forget sandboxes", `DELETE FROM sandboxes WHERE state IN (?, ?) AND due_ms < ? AND (due_ms < ? OR id NOT IN
		(SELECT max(id) FROM sandboxes GROUP BY project, scope))`, ended, failed, before.UnixMilli(), long.UnixMilli()))
}

// find finds an incarnation by the id of its runtime; session.ErrNotFound.
func (b *Book) find(ctx context.Context, project, runtime string) (row, error) {
	all, err := query(ctx, b.db, `project = ? AND runtime = ?`, project, runtime)
	if err != nil {
		return row{}, fmt.Errorf("find sandbox: %w", err)
	}
	if len(all) == 0 {
		return row{}, fmt.Errorf("sandbox %q: %w", runtime, session.ErrNotFound)
	}
	return all[0], nil
}

// suspended finds what an incarnation became when it was suspended.
func (b *Book) suspended(ctx context.Context, project, source string) (row, bool, error) {
	all, err := query(ctx, b.db, `project = ? AND source = ? AND state = ? ORDER BY id DESC LIMIT 1`, project, source, sealed)
	if err != nil || len(all) == 0 {
		return row{}, false, err
	}
	return all[0], true, nil
}

// newest is the newest generation that was seen of a scope.
func (b *Book) newest(ctx context.Context, project string, scope session.Scope) (int64, error) {
	var n sql.NullInt64
	err := b.db.QueryRowContext(ctx, `SELECT max(generation) FROM sandboxes WHERE project = ? AND scope = ?`, project, scopeKey(scope)).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("find newest generation: %w", err)
	}
	return n.Int64, nil
}

// again reads a row anew.
func (b *Book) again(ctx context.Context, id int64) (row, error) {
	all, err := query(ctx, b.db, `id = ?`, id)
	if err != nil || len(all) == 0 {
		return row{}, errors.Join(err, session.ErrNotFound)
	}
	return all[0], nil
}

// claim takes a lease that has run out: from here on it cannot be renewed. It says
// whether nobody was faster.
func (b *Book) claim(ctx context.Context, r row, now time.Time) (bool, error) {
	res, err := b.db.ExecContext(ctx, `UPDATE sandboxes SET state = ? WHERE id = ? AND state = ? AND due_ms <= ?`, ending, r.id, r.state, now.UnixMilli())
	if err != nil {
		return false, fmt.Errorf("take lease: %w", err)
	}
	n, err := res.RowsAffected()
	return n == 1, err
}

// due lists what is to be ended now.
func (b *Book) due(ctx context.Context, now time.Time, limit int) ([]row, error) {
	all, err := query(ctx, b.db, `state IN (?, ?, ?) AND due_ms <= ? ORDER BY due_ms LIMIT ?`, making, leased, ending, now.UnixMilli(), limit)
	if err != nil {
		return nil, fmt.Errorf("list sandboxes that are due: %w", err)
	}
	return all, nil
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func query(ctx context.Context, q querier, where string, args ...any) ([]row, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, project, scope, owner, generation, request, lease, source, state, due_ms, attempts FROM sandboxes WHERE `+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []row
	for rows.Next() {
		var (
			r     row
			scope string
			lease sql.NullString
			due   int64
		)
		if err := rows.Scan(&r.id, &r.project, &scope, &r.tenure.Owner, &r.tenure.Generation, &r.request, &lease, &r.source, &r.state, &due, &r.attempts); err != nil {
			return nil, err
		}
		r.due = time.UnixMilli(due)
		err := json.Unmarshal([]byte(scope), &r.tenure.Scope)
		if lease.Valid && err == nil {
			r.lease = &session.Lease{}
			err = json.Unmarshal([]byte(lease.String), r.lease)
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w: %w", r.id, session.ErrCorrupt, err)
		}
		all = append(all, r)
	}
	return all, rows.Err()
}

func (b *Book) exec(ctx context.Context, what, statement string, args ...any) error {
	if _, err := b.db.ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (b *Book) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := fn(tx); err != nil {
		if rerr := tx.Rollback(); !errors.Is(rerr, sql.ErrTxDone) {
			err = errors.Join(err, rerr)
		}
		return err
	}
	return tx.Commit()
}

// scopeKey is all four ids of a scope.
func scopeKey(s session.Scope) string {
	b, err := json.Marshal(s)
	if err != nil { // strings always marshal
		return fmt.Sprintf("%q", s)
	}
	return string(b)
}
