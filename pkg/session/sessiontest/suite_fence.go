package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/session"
)

func testClaims(t *testing.T, f Fixture) {
	t.Helper()
	a, b := f.Open(t), f.Open(t)
	me, you := session.NewClaimant("a"), session.NewClaimant("b")
	first := claim(t, a, "w", me)
	if first.Fence.Generation != 1 || !near(first.Left, ttl) || first.Last != nil {
		t.Fatalf("first claim: %+v", first)
	}
	f.Advance(t, ttl/2)
	again := claim(t, b, "w", me)
	if again.Fence.Generation != 1 || !near(again.Left, ttl/2) || !again.Fence.Token.Equal(me.Token) {
		t.Fatalf("the same claim again: %+v", again)
	}
	thief := session.Claimant{Owner: me.Owner, Token: session.NewSecret()}
	for name, by := range map[string]session.Claimant{"other owner": you, "same owner, other token": thief} {
		_, err := b.Fences.Acquire(t.Context(), Scope("w"), by, ttl)
		var conflict *session.ConflictError
		if !errors.As(err, &conflict) || !near(conflict.Left, ttl/2) {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

func testStale(t *testing.T, f Fixture) {
	t.Helper()
	a, b := f.Open(t), f.Open(t)
	old := claim(t, a, "w", session.NewClaimant("a")).Fence
	publish(t, a, old, Draft("one"))
	f.Advance(t, ttl+moment)
	lost := func(when string) {
		t.Helper()
		_, err1 := a.Fences.Renew(t.Context(), old, ttl)
		_, err2 := a.Fences.Publish(t.Context(), old, Draft("stale"))
		err3 := a.Fences.Current(t.Context(), old)
		for _, err := range []error{err1, err2, err3} {
			if !errors.Is(err, session.ErrLost) {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	lost("expired, nobody took it")
	next := claim(t, b, "w", session.NewClaimant("b"))
	if next.Fence.Generation != 2 || next.Last == nil || next.Last.Workspace.ID != "one" || next.Last.Generation != 1 {
		t.Fatalf("next claim: %+v", next)
	}
	lost("taken over")
	if err := a.Fences.Release(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := b.Fences.Current(t.Context(), next.Fence); err != nil {
		t.Fatalf("a stale holder released its successor's fence: %v", err)
	}
	for name, change := range map[string]func(*session.Fence){
		"generation": func(f *session.Fence) { f.Generation-- },
		"owner":      func(f *session.Fence) { f.Owner = "x" },
		"token":      func(f *session.Fence) { f.Token = session.NewSecret() },
		"no token":   func(f *session.Fence) { f.Token = session.Secret{} },
		"session":    func(f *session.Fence) { f.Scope.Session = "other" },
	} {
		forged := next.Fence
		change(&forged)
		if _, err := b.Fences.Publish(t.Context(), forged, Draft("forged")); !errors.Is(err, session.ErrLost) {
			t.Fatalf("%s was forged: %v", name, err)
		}
	}
}

func testRenewal(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	c := claim(t, s, "w", session.NewClaimant("a"))
	for range 5 {
		f.Advance(t, ttl-30*moment)
		left, err := s.Fences.Renew(t.Context(), c.Fence, ttl)
		if err != nil || !near(left, ttl) {
			t.Fatalf("renew: %s, %v", left, err)
		}
	}
	f.Advance(t, ttl+moment)
	if _, err := s.Fences.Renew(t.Context(), c.Fence, ttl); !errors.Is(err, session.ErrLost) {
		t.Fatalf("renewed after it ran out: %v", err)
	}
}

func testRelease(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	c := claim(t, s, "w", session.NewClaimant("a"))
	publish(t, s, c.Fence, Draft("one"))
	for range 2 {
		if err := s.Fences.Release(t.Context(), c.Fence); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Fences.Current(t.Context(), c.Fence); !errors.Is(err, session.ErrLost) {
		t.Fatalf("still current: %v", err)
	}
	next := claim(t, s, "w", session.NewClaimant("b"))
	if next.Fence.Generation != 2 || next.Last.Workspace.ID != "one" {
		t.Fatalf("after a release: %+v", next)
	}
}

func testPublications(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	if p, err := s.Fences.Published(t.Context(), Scope("w")); p != nil || err != nil {
		t.Fatalf("of no session: %v, %v", p, err)
	}
	one := claim(t, s, "w", session.NewClaimant("a")).Fence
	full := Draft("a")
	full.Output = &session.Candidate{ID: "out_1", ContentHash: "sha256:<&>\u2028"}
	full.RuntimeCheckpoint = &session.RuntimeCheckpoint{Provider: "p", CheckpointID: "c", Kind: session.CheckpointProcess, SourceRuntimeID: "r", SessionID: "s-1", WorkGeneration: 1}
	full.Retained = &session.Lease{Provider: "p", RuntimeID: "r"}
	steps := []struct {
		draft session.Draft
		want  int64
	}{{full, 1}, {full, 1}, {Draft("b"), 2}, {Draft("b"), 2}, {full, 3}}
	for i, step := range steps {
		if p := publish(t, s, one, step.draft); p.Revision != step.want || p.Generation != 1 {
			t.Fatalf("step %d: revision %d of generation %d", i, p.Revision, p.Generation)
		}
	}
	p, err := s.Fences.Published(t.Context(), Scope("w"))
	if err != nil {
		t.Fatal(err)
	}
	want, _ := full.Canonical()
	if got, err := p.Canonical(); err != nil || got != want {
		t.Fatalf("read back: %v %s", err, cmp.Diff(want, got))
	}
	if err := s.Fences.Release(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	two := claim(t, s, "w", session.NewClaimant("b")).Fence
	if p := publish(t, s, two, full); p.Revision != 4 || p.Generation != 2 {
		t.Fatalf("the same draft of a new generation is new: %+v", p)
	}
	bad := Draft("")
	if _, err := s.Fences.Publish(t.Context(), two, bad); err == nil {
		t.Fatal("a candidate without id was published")
	}
}

func testOneHolder(t *testing.T, f Fixture) {
	t.Helper()
	stores := []session.Stores{f.Open(t), f.Open(t), f.Open(t), f.Open(t)}
	for round := range 4 {
		var wg sync.WaitGroup
		results := make([]error, 12)
		for i := range results {
			wg.Go(func() {
				_, results[i] = stores[i%len(stores)].Fences.Acquire(t.Context(), Scope("w"), session.NewClaimant("h"), ttl)
			})
		}
		wg.Wait()
		won := 0
		for _, err := range results {
			var conflict *session.ConflictError
			switch {
			case err == nil:
				won++
			case !errors.As(err, &conflict):
				t.Fatal(err)
			}
		}
		if won != 1 {
			t.Fatalf("round %d: %d holders", round, won)
		}
		f.Advance(t, ttl+moment)
	}
}

func testOnePublisher(t *testing.T, f Fixture) {
	t.Helper()
	stores := []session.Stores{f.Open(t), f.Open(t)}
	fence := claim(t, stores[0], "w", session.NewClaimant("a")).Fence
	var wg sync.WaitGroup
	var mu sync.Mutex
	revisions := map[string]map[int64]bool{}
	for i := range 12 {
		wg.Go(func() {
			id := "same"
			if i%4 == 3 {
				id = fmt.Sprint("own", i)
			}
			p, err := stores[i%2].Fences.Publish(t.Context(), fence, Draft(id))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("publish: %v", err)
			}
			if revisions[id] == nil {
				revisions[id] = map[int64]bool{}
			}
			revisions[id][p.Revision] = true
		})
	}
	wg.Wait()
	owner := map[int64]string{}
	for id, all := range revisions {
		for r := range all {
			if other, taken := owner[r]; taken {
				t.Errorf("revision %d is %s and %s", r, id, other)
			}
			owner[r] = id
		}
	}
}

func testBadRequests(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	by := session.NewClaimant("a")
	for name, try := range map[string]func() error{
		"no ttl":       func() error { _, err := s.Fences.Acquire(t.Context(), Scope("w"), by, 0); return err },
		"negative ttl": func() error { _, err := s.Fences.Acquire(t.Context(), Scope("w"), by, -ttl); return err },
		"no work":      func() error { _, err := s.Fences.Acquire(t.Context(), Scope(""), by, ttl); return err },
		"no owner": func() error {
			_, err := s.Fences.Acquire(t.Context(), Scope("w"), session.Claimant{Token: by.Token}, ttl)
			return err
		},
		"no token": func() error {
			_, err := s.Fences.Acquire(t.Context(), Scope("w"), session.Claimant{Owner: "o"}, ttl)
			return err
		},
		"renew for nothing": func() error { _, err := s.Fences.Renew(t.Context(), session.Fence{}, 0); return err },
		"claim none":        func() error { _, err := s.Orphans.Claim(t.Context(), 0, time.Minute); return err },
		"orphan of nobody":  func() error { return s.Orphans.Enqueue(t.Context(), session.Orphan{ID: "x"}) },
		"intent of nobody":  func() error { return s.Intents.Begin(t.Context(), session.Intent{ID: "x"}) },
	} {
		if err := try(); err == nil {
			t.Errorf("%s was accepted", name)
		} else if strings.Contains(err.Error(), by.Token.Reveal()) {
			t.Errorf("%s: the error holds the token", name)
		}
	}
	if c := claim(t, s, "w", by); c.Fence.Generation != 1 {
		t.Fatalf("a refused request left a trace: %+v", c)
	}
}

func testEndedContexts(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	fence := claim(t, s, "w", session.NewClaimant("a")).Fence
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Fences.Publish(ended, fence, Draft("a"))
	if err == nil || errors.Is(err, session.ErrLost) {
		t.Fatalf("an ended call is no lost fence: %v", err)
	}
	if _, err := s.Fences.Renew(ended, fence, ttl); err == nil || errors.Is(err, session.ErrLost) {
		t.Fatalf("an ended call is no lost fence: %v", err)
	}
}

func testCrossSessions(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	a := Scope("w")
	b := a
	b.Session = "s-2"
	ca, err := s.Fences.Acquire(t.Context(), a, session.NewClaimant("h"), ttl)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s, ca.Fence, Draft("a"))
	cb, err := s.Fences.Acquire(t.Context(), b, session.NewClaimant("h"), ttl)
	if err != nil || cb.Last != nil || cb.Fence.Generation != 1 {
		t.Fatalf("another session: %+v, %v", cb, err)
	}
}

// testWorks: the fence is the session's. A second work item waits for the first
// and goes on from what that published.
func testWorks(t *testing.T, f Fixture) {
	t.Helper()
	s := f.Open(t)
	by := session.NewClaimant("h")
	one := claim(t, s, "w-1", by)
	var conflict *session.ConflictError
	if _, err := s.Fences.Acquire(t.Context(), Scope("w-2"), by, ttl); !errors.As(err, &conflict) {
		t.Fatalf("a second work item at the same time: %v", err)
	}
	publish(t, s, one.Fence, Draft("one"))
	if err := s.Fences.Release(t.Context(), one.Fence); err != nil {
		t.Fatal(err)
	}
	two := claim(t, s, "w-2", session.NewClaimant("h"))
	if two.Fence.Generation != 2 || two.Last == nil || two.Last.Workspace.ID != "one" || two.Fence.Scope.Work != "w-2" {
		t.Fatalf("second work item: %+v", two)
	}
}
