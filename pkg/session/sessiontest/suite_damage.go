package sessiontest

import (
	"errors"
	"testing"

	"github.com/deskfork/deskfork/pkg/session"
)

// needDamage leaves stores whose rows are Go values out: there is nothing to
// spoil.
func needDamage(t *testing.T, f Fixture) bool {
	t.Helper()
	if f.Damage == nil {
		t.Log("rows of this store cannot be spoiled")
		return false
	}
	return true
}

func testDamagedFences(t *testing.T, f Fixture) {
	t.Helper()
	if !needDamage(t, f) {
		return
	}
	s := f.Open(t)
	for name, statement := range map[string]string{
		"no generation":             `UPDATE session_fences SET generation = 0`,
		"negative revision":         `UPDATE session_fences SET revision = -1`,
		"no revision":               `UPDATE session_fences SET revision = 0`,
		"no publication":            `UPDATE session_fences SET publication_json = NULL`,
		"no publication generation": `UPDATE session_fences SET publication_generation = NULL`,
		"publication of the future": `UPDATE session_fences SET publication_generation = generation + 1`,
		"malformed publication":     `UPDATE session_fences SET publication_json = '{'`,
		"publication without id":    `UPDATE session_fences SET publication_json = '{"workspaceCandidate":{},"outputCandidate":null}'`,
		"publication is null":       `UPDATE session_fences SET publication_json = 'null'`,
		"bad runtime checkpoint":    `UPDATE session_fences SET publication_json = '{"workspaceCandidate":{"id":"a","contentHash":"b"},"outputCandidate":null,"runtimeCheckpoint":{}}'`,
	} {
		t.Run(name, func(t *testing.T) {
			f.Damage(t, `DELETE FROM session_fences`)
			c := claim(t, s, "w", session.NewClaimant("a"))
			publish(t, s, c.Fence, Draft("a"))
			f.Advance(t, ttl+moment)
			f.Damage(t, statement)
			for range 2 {
				if got, err := s.Fences.Acquire(t.Context(), Scope("w"), session.NewClaimant("b"), ttl); !errors.Is(err, session.ErrCorrupt) {
					t.Fatalf("acquired %+v, %v", got, err)
				}
			}
			if got, err := s.Fences.Published(t.Context(), Scope("w")); !errors.Is(err, session.ErrCorrupt) {
				t.Fatalf("published %+v, %v", got, err)
			}
		})
	}
}

func testDamagedOrphans(t *testing.T, f Fixture) {
	t.Helper()
	if !needDamage(t, f) {
		return
	}
	s := f.Open(t)
	for name, statement := range map[string]string{
		"tenure":         `UPDATE session_orphans SET tenure_json = '{}' WHERE id LIKE '%r-bad%'`,
		"tenure is cut":  `UPDATE session_orphans SET tenure_json = '{"sc' WHERE id LIKE '%r-bad%'`,
		"lease":          `UPDATE session_orphans SET lease_json = '{"provider":"p"}' WHERE id LIKE '%r-bad%'`,
		"other lease":    `UPDATE session_orphans SET lease_json = '{"provider":"p","runtimeId":"other"}' WHERE id LIKE '%r-bad%'`,
		"lease and more": `UPDATE session_orphans SET lease_json = lease_json || '{}' WHERE id LIKE '%r-bad%'`,
		"reason":         `UPDATE session_orphans SET reason = 'because' WHERE id LIKE '%r-bad%'`,
		"attempts":       `UPDATE session_orphans SET attempts = -1 WHERE id LIKE '%r-bad%'`,
	} {
		t.Run(name, func(t *testing.T) {
			f.Damage(t, `DELETE FROM session_orphans`)
			enqueue(t, s, orphan("r-bad"), orphan("r-good"))
			f.Damage(t, statement)
			got, err := s.Orphans.Claim(t.Context(), 10, ttl)
			if !errors.Is(err, session.ErrCorrupt) {
				t.Fatalf("damage was not seen: %v", err)
			}
			if len(got) != 1 || got[0].Lease.RuntimeID != "r-good" {
				t.Fatalf("beside the damaged row: %+v", got)
			}
		})
	}
}

func testDamagedIntents(t *testing.T, f Fixture) {
	t.Helper()
	if !needDamage(t, f) {
		return
	}
	s := f.Open(t)
	for name, statement := range map[string]string{
		"tenure":       `UPDATE session_intents SET tenure_json = '{}' WHERE generation = 1`,
		"other tenure": `UPDATE session_intents SET tenure_json = (SELECT tenure_json FROM session_intents WHERE generation = 2) WHERE generation = 1`,
		"lease":        `UPDATE session_intents SET lease_json = '{}' WHERE generation = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			f.Damage(t, `DELETE FROM session_intents`)
			for g := range int64(2) {
				if err := s.Intents.Begin(t.Context(), session.NewIntent(Tenure(g+1))); err != nil {
					t.Fatal(err)
				}
			}
			f.Damage(t, statement)
			page, next, err := s.Intents.Abandoned(t.Context(), "", 1)
			if !errors.Is(err, session.ErrCorrupt) || len(page) != 0 || next == "" {
				t.Fatalf("page of the damaged row: %+v, %q, %v", page, next, err)
			}
			if page, _, err := s.Intents.Abandoned(t.Context(), next, 1); err != nil || len(page) != 1 || page[0].Tenure.Generation != 2 {
				t.Fatalf("after it: %+v, %v", page, err)
			}
		})
	}
}

// testVanishedRow: an administrator removed the row.
func testVanishedRow(t *testing.T, f Fixture) {
	t.Helper()
	if !needDamage(t, f) {
		return
	}
	s := f.Open(t)
	c := claim(t, s, "w", session.NewClaimant("a"))
	f.Damage(t, `DELETE FROM session_fences`)
	if _, err := s.Fences.Publish(t.Context(), c.Fence, Draft("a")); !errors.Is(err, session.ErrLost) {
		t.Fatalf("published without a row: %v", err)
	}
	if err := s.Fences.Release(t.Context(), c.Fence); err != nil {
		t.Fatal(err)
	}
	if again := claim(t, s, "w", session.NewClaimant("b")); again.Fence.Generation != 1 {
		t.Fatalf("claimed %+v", again)
	}
}

// testNumbersAsStrings: SQLite keeps what it is given.
func testNumbersAsStrings(t *testing.T, f Fixture) {
	t.Helper()
	if !needDamage(t, f) {
		return
	}
	s := f.Open(t)
	by := session.NewClaimant("a")
	c := claim(t, s, "w", by)
	publish(t, s, c.Fence, Draft("a"))
	f.Damage(t, `UPDATE session_fences SET generation = '1', revision = '1', publication_generation = '1'`)
	if again := claim(t, s, "w", by); again.Fence.Generation != 1 || again.Last.Revision != 1 {
		t.Fatalf("claimed %+v", again)
	}
}
