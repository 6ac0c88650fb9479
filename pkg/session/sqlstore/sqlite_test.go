package sqlstore_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
)

func TestSQLite(t *testing.T) {
	t.Parallel()
	sessiontest.Run(t, func(t *testing.T) sessiontest.Fixture {
		t.Helper()
		path := filepath.Join(t.TempDir(), "sessions.db")
		open := func(t *testing.T) session.Stores {
			t.Helper()
			s, err := sqlstore.OpenSQLite(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s.Stores()
		}
		open(t) // makes the tables
		raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		raw.SetMaxOpenConns(1)
		t.Cleanup(func() { _ = raw.Close() })
		return sessiontest.SQL(raw, open)
	})
}

func TestSQLiteFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b?c%.db")
	s, err := sqlstore.OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	by := session.NewClaimant("h")
	c, err := s.Stores().Fences.Acquire(t.Context(), sessiontest.Scope("w"), by, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stores().Fences.Publish(t.Context(), c.Fence, sessiontest.Draft("a")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %s", name, info.Mode())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// Opened again, all is there, and no file holds the token.
	s, err = sqlstore.OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if p, err := s.Stores().Fences.Published(t.Context(), sessiontest.Scope("w")); err != nil || p == nil || p.Workspace.ID != "a" {
		t.Fatalf("after a restart: %+v, %v", p, err)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), by.Token.Reveal()) {
			t.Errorf("%s holds the token", name)
		}
	}
}

// TestSQLiteAsksNoOtherClock: what the host's clock says, by which SQLite goes, decides
// nothing: setting it neither ends a fence nor prolongs one.
func TestSQLiteAsksNoOtherClock(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "sessions.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test's directory goes
	now := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	s.SetNow(func() time.Time { return now })
	fences, scope := s.Stores().Fences, sessiontest.Scope("w")
	c, err := fences.Acquire(t.Context(), scope, session.NewClaimant("h"), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		now = now.Add(50 * time.Second)
		if _, err := fences.Renew(t.Context(), c.Fence, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fences.Acquire(t.Context(), scope, session.NewClaimant("i"), time.Minute); err == nil {
		t.Error("two hold it")
	}
	now = now.Add(time.Minute)
	if _, err := fences.Renew(t.Context(), c.Fence, time.Minute); !errors.Is(err, session.ErrLost) {
		t.Errorf("a minute later: %v", err)
	}
	if next, err := fences.Acquire(t.Context(), scope, session.NewClaimant("i"), time.Minute); err != nil || next.Fence.Generation != 2 {
		t.Errorf("the next: %+v, %v", next, err)
	}
}
