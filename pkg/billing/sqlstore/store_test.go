package sqlstore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/billing/sqlstore"
	"github.com/deskfork/deskfork/test/harness/postgres"
)

// opened closes a store when the test ends.
func opened(t *testing.T, s *sqlstore.Store, err error) *sqlstore.Store {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	billingtest.Run(t, func(t *testing.T) billing.Ledger {
		t.Helper()
		s, err := sqlstore.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "a %20?#b.db"))
		return opened(t, s, err)
	})
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	c := postgres.Start(t)
	billingtest.Run(t, func(t *testing.T) billing.Ledger {
		t.Helper()
		s, err := sqlstore.OpenPostgres(t.Context(), c.Database(t))
		return opened(t, s, err)
	})
}

// TestSQLiteStays: what was committed is there when the file is opened again,
// and nobody else may read it.
func TestSQLiteStays(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "usage.db")
	for want := range 3 {
		s, err := sqlstore.OpenSQLite(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := s.List(t.Context(), billing.Query{})
		if err != nil || len(rows) != want {
			t.Fatalf("%d rows, want %d: %v", len(rows), want, err)
		}
		if _, err := s.Commit(t.Context(), billing.Batch{Rows: []billing.Row{billingtest.Row("i1", billing.VCPUSeconds, want, 1)}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
}

// TestPostgresCrash: hosts open one database at once; what it has answered
// outlives its crash, and a commit that is repeated after it adds nothing.
func TestPostgresCrash(t *testing.T) {
	t.Parallel()
	c := postgres.Start(t)
	dsn := c.Database(t)
	type open struct {
		s   *sqlstore.Store
		err error
	}
	results := make(chan open)
	for range 3 {
		go func() {
			s, err := sqlstore.OpenPostgres(t.Context(), dsn)
			results <- open{s, err}
		}()
	}
	var stores []*sqlstore.Store
	for range 3 {
		r := <-results
		stores = append(stores, opened(t, r.s, r.err))
	}
	batch := billing.Batch{
		Rows:  []billing.Row{billingtest.Row("i1", billing.VCPUSeconds, 0, 1)},
		Marks: []billing.Mark{{Host: "h", Incarnation: "i1", Version: 1, Body: []byte("x")}},
	}
	if n, err := stores[0].Commit(t.Context(), batch); n != 1 || err != nil {
		t.Fatalf("%d rows are new, %v", n, err)
	}
	c.Crash(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i, s := range stores {
		for {
			n, err := s.Commit(ctx, batch)
			if err == nil {
				if n != 0 {
					t.Errorf("host %d has added %d rows again", i, n)
				}
				break
			}
			if ctx.Err() != nil { // a connection to the old server may fail once
				t.Fatal(err)
			}
		}
		rows, err := s.List(ctx, billing.Query{})
		marks, merr := s.Marks(ctx, "h")
		if err != nil || merr != nil || len(rows) != 1 || len(marks) != 1 {
			t.Errorf("host %d has %d rows and %d marks: %v, %v", i, len(rows), len(marks), err, merr)
		}
	}
}
