//go:build integration

package sqlstore_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sqlstore"
	"github.com/deskfork/deskfork/test/harness/postgres"
)

func openPostgres(t *testing.T, dsn string) *sqlstore.Store {
	t.Helper()
	s, err := sqlstore.OpenPostgres(t.Context(), dsn)
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

func TestPostgres(t *testing.T) {
	t.Parallel()
	cluster := postgres.Start(t)
	sessiontest.Run(t, func(t *testing.T) sessiontest.Fixture {
		t.Helper()
		dsn := cluster.Database(t)
		raw := openPostgres(t, dsn)
		return sessiontest.SQL(raw.DB(), func(t *testing.T) session.Stores {
			t.Helper()
			return openPostgres(t, dsn).Stores()
		})
	})
}

func TestPostgresIsListed(t *testing.T) {
	t.Parallel()
	startOfTheOnlyHost(t, openPostgres(t, postgres.Start(t).Database(t)))
}

// TestPostgresTogether: several hosts come to an empty database at the same time.
func TestPostgresTogether(t *testing.T) {
	t.Parallel()
	dsn := postgres.Start(t).Database(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := sqlstore.OpenPostgres(t.Context(), dsn)
			if err != nil {
				t.Errorf("make the tables: %v", err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestClocks: two hosts whose clocks are five minutes apart, and decades off the
// database's, agree on who holds a session: nobody's clock but the database's
// counts. Each host lives in a bubble, whose clock begins in 2000.
func TestClocks(t *testing.T) {
	t.Parallel()
	dsn := postgres.Start(t).Database(t)
	admin := openPostgres(t, dsn)
	fixture := sessiontest.SQL(admin.DB(), nil)
	host := func(ahead time.Duration, f func(t *testing.T, s session.Stores)) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(ahead) //nolint:forbidigo // the bubble's clock is this host's
			s, err := sqlstore.OpenPostgres(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			f(t, s.Stores())
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	const ttl = time.Minute
	slow, fast := session.NewClaimant("slow"), session.NewClaimant("fast")
	var held session.Claim
	var times []time.Time
	host(0, func(t *testing.T, s session.Stores) {
		times = append(times, time.Now())
		var err error
		if held, err = s.Fences.Acquire(t.Context(), sessiontest.Scope("w"), slow, ttl); err != nil || held.Left > ttl || held.Left < ttl-20*time.Second {
			t.Fatalf("%+v, %v", held, err)
		}
	})
	// By this clock the lease of a minute was over four minutes ago.
	host(5*time.Minute, func(t *testing.T, s session.Stores) {
		times = append(times, time.Now())
		_, err := s.Fences.Acquire(t.Context(), sessiontest.Scope("w"), fast, ttl)
		if conflict, ok := errors.AsType[*session.ConflictError](err); !ok || conflict.Left > ttl || conflict.Left <= 0 {
			t.Fatalf("a fast clock took a live session: %v", err)
		}
	})
	if len(times) != 2 || times[1].Sub(times[0]) < 5*time.Minute {
		t.Fatalf("the clocks are not apart: %v", times)
	}
	host(0, func(t *testing.T, s session.Stores) {
		if left, err := s.Fences.Renew(t.Context(), held.Fence, ttl); err != nil || left > ttl {
			t.Fatalf("%s, %v", left, err)
		}
		if _, err := s.Fences.Publish(t.Context(), held.Fence, sessiontest.Draft("a")); err != nil {
			t.Fatal(err)
		}
	})
	fixture.Advance(t, 2*ttl)
	host(5*time.Minute, func(t *testing.T, s session.Stores) {
		next, err := s.Fences.Acquire(t.Context(), sessiontest.Scope("w"), fast, ttl)
		if err != nil || next.Fence.Generation != 2 || next.Last.Workspace.ID != "a" {
			t.Fatalf("%+v, %v", next, err)
		}
	})
	// By this clock the lease that was lost had just begun.
	host(0, func(t *testing.T, s session.Stores) {
		if _, err := s.Fences.Publish(t.Context(), held.Fence, sessiontest.Draft("stale")); !errors.Is(err, session.ErrLost) {
			t.Fatalf("a slow clock published after it had lost the session: %v", err)
		}
	})
}

// TestPostgresCrash: what was published outlives a crash of the server.
func TestPostgresCrash(t *testing.T) {
	t.Parallel()
	cluster := postgres.Start(t)
	s := openPostgres(t, cluster.Database(t))
	fences := s.Stores().Fences
	c, err := fences.Acquire(t.Context(), sessiontest.Scope("w"), session.NewClaimant("h"), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fences.Publish(t.Context(), c.Fence, sessiontest.Draft("a")); err != nil {
		t.Fatal(err)
	}
	cluster.Crash(t)
	_ = s.DB().PingContext(t.Context()) // the pool may hold a dead connection once
	again, err := fences.Publish(t.Context(), c.Fence, sessiontest.Draft("a"))
	if err != nil || again.Revision != 1 {
		t.Fatalf("after the crash: %+v, %v", again, err)
	}
}
