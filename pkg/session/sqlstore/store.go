// Package sqlstore keeps fences, orphans and intents in a database: SQLite for
// one host, PostgreSQL for several. Both run the same statements.
//
// Every comparison with time is made by the database, inside the statement that acts
// on it. With PostgreSQL it is by the database's clock; no host's is ever read. SQLite
// has none but its host's, which people and NTP set: there it is a clock of the one
// process that has the file, which nobody can set. A publication is
// one conditional update. Rows that do not make sense are errors and never read as
// empty.
package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/deskfork/deskfork/internal/x/sqlitefile"
	"github.com/deskfork/deskfork/internal/x/steady"
	"github.com/deskfork/deskfork/pkg/session"
)

//go:embed migrations/*.sql
var migrations embed.FS

// versionTable is goose's; it has its own name because the database may hold other
// tables with other migrations.
const versionTable = "session_schema_version"

// FileName is what a database file is called in a data directory.
const FileName = "sessions.db"

// Store is one database. Safe for concurrent use.
type Store struct {
	db *sql.DB
	// words replaces what the two databases spell differently.
	words *strings.Replacer
	// now is what time it is; nil: the database knows.
	now func() time.Time
}

var (
	sqliteWords = strings.NewReplacer("{skip locked}", "")
	// clock_timestamp, because now() stands still while a statement waits for a
	// lock.
	postgresWords = strings.NewReplacer(
		"{now}", "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)",
		"{skip locked}", "FOR UPDATE SKIP LOCKED")
)

// OpenSQLite opens or makes a database file (mode 0600) and brings it up to date.
func OpenSQLite(ctx context.Context, path string) (*Store, error) {
	// FULL, because a publication that was answered must outlive a power cut.
	db, err := sqlitefile.Open(path, sqlitefile.Full)
	if err != nil {
		return nil, fmt.Errorf("session database: %w", err)
	}
	return open(ctx, &Store{db: db, words: sqliteWords, now: steady.Clock()}, goose.DialectSQLite3)
}

// OpenPostgres connects to PostgreSQL and brings the tables up to date. Several
// hosts may do so at once.
func OpenPostgres(ctx context.Context, dsn string) (*Store, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("open session database: %w", err)
	}
	db := stdlib.OpenDB(*cfg)
	// Tried once a second, for a minute.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare migrations: %w", err), db.Close())
	}
	return open(ctx, &Store{db: db, words: postgresWords}, goose.DialectPostgres, goose.WithSessionLocker(locker))
}

func open(ctx context.Context, s *Store, dialect goose.Dialect, opts ...goose.ProviderOption) (*Store, error) {
	if err := migrate(ctx, s.db, dialect, opts...); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

func migrate(ctx context.Context, db *sql.DB, dialect goose.Dialect, opts ...goose.ProviderOption) error {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	p, err := goose.NewProvider(dialect, db, sub, append(opts, goose.WithTableName(versionTable))...)
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate session database: %w", err)
	}
	return nil
}

// Close ends the connections.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close session database: %w", err)
	}
	return nil
}

// DB is the database itself, for those who look at its rows.
func (s *Store) DB() *sql.DB { return s.db }

// Stores gives the three ports.
func (s *Store) Stores() session.Stores {
	return session.Stores{Fences: &Fences{s}, Orphans: &Orphans{s}, Intents: &Intents{s}}
}

// statement is a query and its arguments.
type statement struct {
	text string
	args []any
}

func query(text string, args ...any) statement { return statement{text: text, args: args} }

// spelled is a text as the database reads it.
func (s *Store) spelled(text string) string {
	if s.now != nil {
		text = strings.ReplaceAll(text, "{now}", strconv.FormatInt(s.now().UnixMilli(), 10))
	}
	return s.words.Replace(text)
}

// one reads at most one row; found is false when there is none. A row that does
// not fit dest is ErrCorrupt.
func (s *Store) one(ctx context.Context, q statement, dest ...any) (found bool, err error) {
	err = s.each(ctx, q, func(scan func(dest ...any) error) error {
		found = true
		return scan(dest...)
	})
	return found && err == nil, err
}

// each reads rows, all of them, and joins what row said.
func (s *Store) each(ctx context.Context, q statement, row func(scan func(dest ...any) error) error) error {
	rows, err := s.db.QueryContext(ctx, s.spelled(q.text), q.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var faults error
	for rows.Next() {
		faults = errors.Join(faults, row(func(dest ...any) error {
			if err := rows.Scan(dest...); err != nil {
				return fmt.Errorf("%w: %w", session.ErrCorrupt, err)
			}
			return nil
		}))
	}
	return errors.Join(rows.Err(), faults)
}

// exec says how many rows were changed.
func (s *Store) exec(ctx context.Context, q statement) (int64, error) {
	res, err := s.db.ExecContext(ctx, s.spelled(q.text), q.args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
