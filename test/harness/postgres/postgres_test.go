package postgres_test

import (
	"database/sql"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/deskfork/deskfork/test/harness/postgres"
)

// TestCrash: what was committed outlives a crash of the server, and databases
// know nothing of each other.
func TestCrash(t *testing.T) {
	t.Parallel()
	c := postgres.Start(t)
	one, two := open(t, c.Database(t)), open(t, c.Database(t))
	for _, db := range []*sql.DB{one, two} {
		if _, err := db.ExecContext(t.Context(), `CREATE TABLE t (n int)`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := one.ExecContext(t.Context(), `INSERT INTO t VALUES (42)`); err != nil {
		t.Fatal(err)
	}
	c.Crash(t)
	for db, want := range map[*sql.DB]int{one: 1, two: 0} {
		var n int
		// The pool may hold a connection to the old server once.
		_ = db.PingContext(t.Context())
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM t`).Scan(&n); err != nil || n != want {
			t.Errorf("%d rows, want %d: %v", n, want, err)
		}
	}
}

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
