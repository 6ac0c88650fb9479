package leases_test

import (
	"testing"
	"time"
)

// TestLeasesOutliveARestart: nobody could renew while no process ran, or while the
// clock was wrong; what is taken over has its time from then on, and no more.
func TestLeasesOutliveARestart(t *testing.T) {
	for name, away := range map[string]time.Duration{
		"down for ten minutes":     10 * time.Minute,
		"down for a moment":        time.Second,
		"the clock was days ahead": -72 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			one := b.create(request(1)).Lease.RuntimeID
			begin := func(away time.Duration) {
				t.Helper()
				b.mu.Lock()
				b.now = b.now.Add(away)
				b.mu.Unlock()
				b.restart()
				if err := b.Begin(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			begin(away)
			for range 3 {
				if err := b.pass(89 * time.Second); err != nil {
					t.Fatal(err)
				}
				b.machines(one)
				if _, err := b.Renew(t.Context(), under(1), one, 90*time.Second); err != nil {
					t.Fatal(err)
				}
			}
			begin(away)
			if err := b.pass(91 * time.Second); err != nil {
				t.Fatal(err)
			}
			b.machines()
		})
	}
}

// TestSupersededIsNotTakenOver: a restart prolongs nothing that a newer generation has
// replaced.
func TestSupersededIsNotTakenOver(t *testing.T) {
	b := newBench(t)
	b.create(request(1))
	two := b.create(request(2)).Lease.RuntimeID
	b.restart()
	if err := b.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.pass(time.Second); err != nil {
		t.Fatal(err)
	}
	b.machines(two)
}
