package sessiontest

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// SQL is a fixture on the rows of a database, behind the stores' back. A clock that
// goes on by d is rows whose times lie d further back: the database's own clock
// stays untouched.
func SQL(raw *sql.DB, open func(*testing.T) session.Stores) Fixture {
	run := func(t *testing.T, statement string, args ...any) {
		t.Helper()
		if _, err := raw.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	return Fixture{
		Open: open,
		Advance: func(t *testing.T, d time.Duration) {
			t.Helper()
			ms := d.Milliseconds()
			run(t, `UPDATE session_fences SET expires_at_ms = expires_at_ms - $1`, ms)
			run(t, `UPDATE session_orphans SET enqueued_at_ms = enqueued_at_ms - $1, next_attempt_at_ms = next_attempt_at_ms - $1`, ms)
			run(t, `UPDATE session_intents SET begun_at_ms = begun_at_ms - $1`, ms)
		},
		Dump:   func(t *testing.T) string { t.Helper(); return dump(t, raw) },
		Damage: func(t *testing.T, statement string) { t.Helper(); run(t, statement) },
	}
}

func dump(t *testing.T, raw *sql.DB) string {
	t.Helper()
	var out strings.Builder
	for _, table := range []string{"session_fences", "session_orphans", "session_intents"} {
		if err := dumpTable(t, raw, table, &out); err != nil {
			t.Fatalf("dump %s: %v", table, err)
		}
	}
	return out.String()
}

func dumpTable(t *testing.T, raw *sql.DB, table string, out *strings.Builder) error {
	t.Helper()
	rows, err := raw.QueryContext(t.Context(), `SELECT * FROM `+table)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	for rows.Next() {
		values := make([]any, len(names))
		dest := make([]any, len(names))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %v\n", table, values)
	}
	return rows.Err()
}
