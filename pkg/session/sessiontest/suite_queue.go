package sessiontest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/session"
)

// Tenure is a tenure of the tests' session.
func Tenure(generation int64) session.Tenure {
	return session.Tenure{Scope: Scope("w"), Owner: "o", Generation: generation}
}

func orphan(runtime string) session.Orphan {
	return session.NewOrphan(Tenure(1), session.Lease{Provider: "p", RuntimeID: runtime, Metadata: session.Metadata{"node": "n"}}, session.ReasonLeaseLost, errors.New("qmp is silent"))
}

func enqueue(t *testing.T, s session.Stores, all ...session.Orphan) {
	t.Helper()
	for _, o := range all {
		if err := s.Orphans.Enqueue(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func claimOrphans(t *testing.T, s session.Stores, limit int) []session.Orphan {
	t.Helper()
	all, err := s.Orphans.Claim(t.Context(), limit, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func testOrphanQueue(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	o := orphan("r1")
	enqueue(t, s, o)
	o.LastError = "again"
	enqueue(t, s, o)
	got := claimOrphans(t, s, 10)
	if len(got) != 1 {
		t.Fatalf("claimed %+v", got)
	}
	got[0].Age = 0
	if diff := cmp.Diff(o, got[0]); diff != "" {
		t.Fatal(diff)
	}
	if got := claimOrphans(t, s, 10); len(got) != 0 {
		t.Fatalf("claimed twice: %+v", got)
	}
	if err := s.Orphans.Failed(t.Context(), o.ID, "no answer", 10*time.Minute); err != nil {
		t.Fatal(err)
	}
	f.Advance(t, 9*time.Minute)
	if got := claimOrphans(t, s, 10); len(got) != 0 {
		t.Fatalf("claimed before it is due: %+v", got)
	}
	f.Advance(t, 2*time.Minute)
	got = claimOrphans(t, s, 10)
	if len(got) != 1 || got[0].Attempts != 1 || got[0].LastError != "no answer" || got[0].Age < 11*time.Minute {
		t.Fatalf("after a failure: %+v", got)
	}
}

func testOrphanBacklog(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	o := orphan("r1")
	enqueue(t, s, o)
	if err := s.Orphans.Failed(t.Context(), o.ID, "no answer", 0); err != nil {
		t.Fatal(err)
	}
	f.Advance(t, 11*time.Minute)
	// Enqueued again, it keeps its count and age.
	enqueue(t, s, o)
	b, err := s.Orphans.Backlog(t.Context())
	if err != nil || b.Total != 1 || b.MaxAttempts != 1 || b.Oldest < 11*time.Minute {
		t.Fatalf("backlog %+v, %v", b, err)
	}
	for range 2 {
		if err := s.Orphans.Resolve(t.Context(), o.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Orphans.Failed(t.Context(), o.ID, "x", 0); !errors.Is(err, session.ErrNotFound) {
		t.Fatalf("failed after it was resolved: %v", err)
	}
	if b, err := s.Orphans.Backlog(t.Context()); err != nil || b != (session.Backlog{}) {
		t.Fatalf("empty backlog %+v, %v", b, err)
	}
}

// testOrphanStarvation: orphans that always fail, and sort first by id, do not
// keep others from their turn.
func testOrphanStarvation(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	for i := range 20 {
		enqueue(t, s, orphan(fmt.Sprint("a-bad-", i)))
	}
	enqueue(t, s, orphan("z-good"))
	seen := false
	for range 12 {
		for _, o := range claimOrphans(t, s, 4) {
			if o.Lease.RuntimeID == "z-good" {
				seen = true
				continue
			}
			if err := s.Orphans.Failed(t.Context(), o.ID, "never", time.Second); err != nil {
				t.Fatal(err)
			}
		}
		f.Advance(t, 2*time.Second)
	}
	if !seen {
		t.Fatal("the last orphan never had its turn")
	}
}

func testOrphanClaims(t *testing.T, f Fixture) {
	t.Helper()
	stores := []session.Stores{f.Open(t), f.Open(t), f.Open(t)}
	for i := range 30 {
		enqueue(t, stores[0], orphan(fmt.Sprint("r", i)))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for i := range 6 {
		wg.Go(func() {
			all, err := stores[i%3].Orphans.Claim(t.Context(), 5, time.Hour)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || len(all) > 5 {
				t.Errorf("claimed %d, %v", len(all), err)
			}
			for _, o := range all {
				seen[o.ID]++
			}
		})
	}
	wg.Wait()
	// Two at once may see one page; what one skips the next call finds.
	for _, o := range claimOrphans(t, stores[0], 30) {
		seen[o.ID]++
	}
	if len(seen) != 30 {
		t.Fatalf("%d of 30 were claimed", len(seen))
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
}

func abandonedIntents(t *testing.T, s session.Stores) []session.Intent {
	t.Helper()
	page, next, err := s.Intents.Abandoned(t.Context(), "", 10)
	if err != nil || next != "" {
		t.Fatalf("abandoned: %q, %v", next, err)
	}
	return page
}

func testIntents(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	c := claim(t, s, "w", session.NewClaimant("a"))
	in := session.NewIntent(c.Fence.Tenure)
	lease := session.Lease{Provider: "p", RuntimeID: "r"}
	if err := s.Intents.Bind(t.Context(), in.ID, lease); !errors.Is(err, session.ErrNotFound) {
		t.Fatalf("bound before it began: %v", err)
	}
	for range 2 {
		if err := s.Intents.Begin(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if got := abandonedIntents(t, s); len(got) != 0 {
		t.Fatalf("its fence is held: %+v", got)
	}
	f.Advance(t, ttl+moment)
	if got := abandonedIntents(t, s); len(got) != 1 || got[0].Lease != nil || got[0].Age < ttl || got[0].Tenure != c.Fence.Tenure {
		t.Fatalf("expired: %+v", got)
	}
	if err := s.Intents.Resolve(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	if got := abandonedIntents(t, s); len(got) != 0 {
		t.Fatalf("resolved: %+v", got)
	}
}

func testIntentsOfOldGenerations(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	lease := session.Lease{Provider: "p", RuntimeID: "r"}
	in := session.NewIntent(claim(t, s, "w", session.NewClaimant("a")).Fence.Tenure)
	if err := errors.Join(s.Intents.Begin(t.Context(), in), s.Intents.Bind(t.Context(), in.ID, lease)); err != nil {
		t.Fatal(err)
	}
	f.Advance(t, ttl+moment)
	// Held again, but by a newer generation.
	next := claim(t, s, "w", session.NewClaimant("b"))
	if err := s.Intents.Begin(t.Context(), session.NewIntent(next.Fence.Tenure)); err != nil {
		t.Fatal(err)
	}
	if got := abandonedIntents(t, s); len(got) != 1 || !got[0].Lease.Same(lease) {
		t.Fatalf("of an old generation: %+v", got)
	}
	if err := s.Fences.Release(t.Context(), next.Fence); err != nil {
		t.Fatal(err)
	}
	if got := abandonedIntents(t, s); len(got) != 2 {
		t.Fatalf("released: %+v", got)
	}
	for range 2 {
		if err := s.Intents.Resolve(t.Context(), in.ID); err != nil {
			t.Fatal(err)
		}
	}
	if got := abandonedIntents(t, s); len(got) != 1 {
		t.Fatalf("resolved: %+v", got)
	}
}

func testIntentPages(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	for g := range int64(7) {
		if err := s.Intents.Begin(t.Context(), session.NewIntent(Tenure(g+1))); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	for after, pages := "", 0; ; pages++ {
		page, next, err := s.Intents.Abandoned(t.Context(), after, 3)
		if err != nil || len(page) > 3 || pages > 3 {
			t.Fatalf("page %d: %d rows, %v", pages, len(page), err)
		}
		for _, in := range page {
			seen[in.ID] = true
		}
		if next == "" {
			break
		}
		after = next
	}
	if len(seen) != 7 {
		t.Fatalf("saw %d of 7", len(seen))
	}
}
