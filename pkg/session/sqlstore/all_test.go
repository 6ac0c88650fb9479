package sqlstore_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
)

// TestStartOfTheOnlyHost: what was published is listed, and who held a fence before
// holds it no more.
func TestStartOfTheOnlyHost(t *testing.T) {
	t.Parallel()
	s, err := sqlstore.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "sessions.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the test's directory goes
	startOfTheOnlyHost(t, s)
}

func startOfTheOnlyHost(t *testing.T, s *sqlstore.Store) {
	t.Helper()
	fences := s.Stores().Fences
	scope := sessiontest.Scope("w")
	held, err := fences.Acquire(t.Context(), scope, session.NewClaimant("h"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := s.Publications(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("before the first: %+v, %v", all, err)
	}
	if _, err := fences.Publish(t.Context(), held.Fence, sessiontest.Draft("a")); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Publications(t.Context()); err != nil || len(all) != 1 || all[0].Workspace.ID != sessiontest.Draft("a").Workspace.ID {
		t.Errorf("published: %+v, %v", all, err)
	}
	if n, err := s.EndLeases(t.Context()); err != nil || n != 1 {
		t.Errorf("%d leases ended, %v", n, err)
	}
	if err := fences.Current(t.Context(), held.Fence); !errors.Is(err, session.ErrLost) {
		t.Errorf("the old holder: %v", err)
	}
	next, err := fences.Acquire(t.Context(), scope, session.NewClaimant("h"), time.Hour)
	if err != nil || next.Fence.Generation != 2 || next.Last == nil {
		t.Errorf("the next holder: %+v, %v", next, err)
	}
	if _, err := s.DB().ExecContext(t.Context(), `UPDATE session_fences SET publication_json = '{'`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publications(t.Context()); !errors.Is(err, session.ErrCorrupt) {
		t.Errorf("a damaged row: %v", err)
	}
}
