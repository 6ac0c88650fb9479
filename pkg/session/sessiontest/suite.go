package sessiontest

import (
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// Fixture is one empty set of stores under test.
type Fixture struct {
	// Open gives another host's view of the same rows.
	Open func(t *testing.T) session.Stores
	// Advance moves the stores' clock, as rows see it.
	Advance func(t *testing.T, d time.Duration)
	// Dump is every row as text.
	Dump func(t *testing.T) string
	// Damage runs a statement that spoils rows; nil where rows are Go values.
	Damage func(t *testing.T, statement string)
}

const (
	ttl    = 90 * time.Second
	moment = time.Second
)

// Scope is the scope of a work item of one session of the tests.
func Scope(work string) session.Scope {
	return session.Scope{Workspace: "ws", Environment: "env", Session: "s-1", Work: work}
}

// Draft is a draft whose workspace has the given id.
func Draft(id string) session.Draft {
	return session.Draft{Workspace: session.Candidate{ID: id, ContentHash: "sha256:" + id, Revision: 1, Metadata: session.Metadata{"b": "2", "a": int64(1)}}}
}

// Run is what every implementation of the stores passes.
func Run(t *testing.T, fresh func(t *testing.T) Fixture) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Fixture){
		"Claims":                  testClaims,
		"Stale":                   testStale,
		"Renewal":                 testRenewal,
		"Release":                 testRelease,
		"Publications":            testPublications,
		"OneHolder":               testOneHolder,
		"OnePublisher":            testOnePublisher,
		"BadRequests":             testBadRequests,
		"NoToken":                 testNoToken,
		"Model":                   testModel,
		"OrphanQueue":             testOrphanQueue,
		"OrphanBacklog":           testOrphanBacklog,
		"IntentsOfOldGenerations": testIntentsOfOldGenerations,
		"OrphanStarvation":        testOrphanStarvation,
		"OrphanClaims":            testOrphanClaims,
		"Intents":                 testIntents,
		"IntentPages":             testIntentPages,
		"EndedContexts":           testEndedContexts,
		"DamagedFences":           testDamagedFences,
		"DamagedOrphans":          testDamagedOrphans,
		"DamagedIntents":          testDamagedIntents,
		"VanishedRow":             testVanishedRow,
		"NumbersAsStrings":        testNumbersAsStrings,
		"CrossSessions":           testCrossSessions,
		"WorksOfOneSession":       testWorks,
	} {
		t.Run(name, func(t *testing.T) { test(t, fresh(t)) })
	}
}

func claim(t *testing.T, s session.Stores, work string, by session.Claimant) session.Claim {
	t.Helper()
	c, err := s.Fences.Acquire(t.Context(), Scope(work), by, ttl)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return c
}

func publish(t *testing.T, s session.Stores, f session.Fence, d session.Draft) session.Publication {
	t.Helper()
	p, err := s.Fences.Publish(t.Context(), f, d)
	if err != nil {
		t.Fatalf("publish: %v", err)
	}
	return p
}

// near says whether a duration the store gave is about want.
func near(got, want time.Duration) bool { return got > want-20*time.Second && got <= want }

func testNoToken(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	by := session.NewClaimant("h")
	c := claim(t, s, "w", by)
	publish(t, s, c.Fence, Draft("a"))
	o := session.NewOrphan(c.Fence.Tenure, session.Lease{Provider: "p", RuntimeID: "r"}, session.ReasonFailed, session.ErrLost)
	if err := s.Orphans.Enqueue(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := s.Intents.Begin(t.Context(), session.NewIntent(c.Fence.Tenure)); err != nil {
		t.Fatal(err)
	}
	rows := f.Dump(t)
	if !strings.Contains(rows, by.Owner) {
		t.Fatalf("the dump shows no rows: %s", rows)
	}
	if strings.Contains(rows, by.Token.Reveal()) {
		t.Fatalf("the token is in a row: %s", rows)
	}
}
