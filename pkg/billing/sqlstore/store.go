// Package sqlstore is a ledger of use in a database: SQLite for one host,
// PostgreSQL for several. Both run the same statements.
//
// What Commit has answered outlives a power cut: a row that somebody has pulled
// can never be taken back and told otherwise.
package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/deskfork/deskfork/internal/x/sqlitefile"
	"github.com/deskfork/deskfork/pkg/billing"
)

//go:embed migrations/sqlite/*.sql migrations/postgres/*.sql
var migrations embed.FS

// versionTable is goose's; it has its own name because the database may hold other
// tables with other migrations.
const versionTable = "usage_schema_version"

// Store is one database. Safe for concurrent use.
type Store struct {
	db *sql.DB
	// first is a statement that every Commit begins with; may be empty.
	first string
}

var _ billing.Ledger = (*Store)(nil)

// OpenSQLite opens or makes a database file (mode 0600) and brings it up to date.
func OpenSQLite(ctx context.Context, path string) (*Store, error) {
	db, err := sqlitefile.Open(path, sqlitefile.Full)
	if err != nil {
		return nil, fmt.Errorf("usage database: %w", err)
	}
	return open(ctx, &Store{db: db}, goose.DialectSQLite3, "sqlite")
}

// commitLock is a number of our own among the advisory locks of a database.
const commitLock = "SELECT pg_advisory_xact_lock(7239501846213)"

// OpenPostgres connects to PostgreSQL and brings the tables up to date. Several
// hosts may do so at once, and share it.
func OpenPostgres(ctx context.Context, dsn string) (*Store, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, fmt.Errorf("open usage database: %w", err)
	}
	db.SetMaxOpenConns(8)
	db.SetConnMaxIdleTime(time.Minute)
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare migrations: %w", err), db.Close())
	}
	// IDs are given when a row is written but seen when it is committed. One
	// commit at a time makes both orders one: a reader that asks since the last ID
	// misses no row that was written before and committed after it.
	return open(ctx, &Store{db: db, first: commitLock}, goose.DialectPostgres, "postgres", goose.WithSessionLocker(locker))
}

func open(ctx context.Context, s *Store, dialect goose.Dialect, name string, opts ...goose.ProviderOption) (*Store, error) {
	sub, err := fs.Sub(migrations, "migrations/"+name)
	if err == nil {
		var p *goose.Provider
		if p, err = goose.NewProvider(dialect, s.db, sub, append(opts, goose.WithTableName(versionTable))...); err == nil {
			_, err = p.Up(ctx)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("migrate usage database: %w", err), s.db.Close())
	}
	return s, nil
}

// Close ends the connections.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close usage database: %w", err)
	}
	return nil
}

// inTx runs fn in one transaction.
func (s *Store) inTx(ctx context.Context, fn func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	if err := fn(tx); err != nil {
		if rerr := tx.Rollback(); rerr != nil && !errors.Is(rerr, sql.ErrTxDone) {
			err = errors.Join(err, rerr)
		}
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit transaction: %w", err)
	}
	return nil
}
