package transaction_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/transaction"
)

// TestStorm: five hosts fight for one session, while calls fail, hang, lose their
// answers, callers cancel and leases run out. Whatever happens, each run that says
// completed has a revision of its own, revisions have no gap that nobody knows, and
// nothing leaks.
func TestStorm(t *testing.T) {
	t.Parallel()
	for _, seed := range []uint64{1, 2, 3, 4, 5, 6} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, s *stage) { storm(t, s, seed) }, everything)
		})
	}
}

// dice is a source of chance for several goroutines.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

// mishap is what may happen to any call.
func (d *dice) mishap(ctx context.Context) error {
	switch d.n(300) {
	case 0:
		return errBoom
	case 1:
		<-ctx.Done()
		return context.Cause(ctx)
	case 2:
		<-time.After(time.Duration(d.n(150)) * time.Second) // deaf
	}
	return nil
}

func storm(t *testing.T, s *stage, seed uint64) {
	t.Helper()
	d := &dice{r: rand.New(rand.NewPCG(seed, 9))}
	calls := []string{"fences.publish", "fences.renew", "fences.current", "fences.published", "fences.release", "intents.resolve", "sandbox.terminate", "sandbox.heartbeat", "outputs.release", "outputs.abort", "workspace.release", "egress.revoke"}
	for _, step := range forwards {
		calls = append(calls, step.call)
	}
	for _, call := range calls {
		s.Before(call, func(ctx context.Context, _ int) error { return d.mishap(ctx) })
		s.After(call, func(ctx context.Context, _ int) error { return d.mishap(ctx) })
	}
	s.Harness = func(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
		if d.n(2) == 0 {
			_, _ = r.Checkpoint(ctx, live("a"))
		}
		return works(time.Duration(d.n(200))*time.Second)(ctx, r)
	}
	var mu sync.Mutex
	revisions := map[int64]string{}
	completed := 0
	var wg sync.WaitGroup
	for host := range 5 {
		wg.Go(func() {
			for n := range 80 {
				req := s.req
				req.Scope.Work = fmt.Sprint("w", host, "-", n)
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(60+d.n(1200))*time.Second)
				res, err := s.host.Run(ctx, req)
				cancel()
				if err != nil && !errors.Is(err, errBoom) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, transaction.ErrAbandoned) && !errors.Is(err, context.Canceled) {
					t.Errorf("run %s: %v", req.Scope.Work, err)
				}
				mu.Lock()
				if res.Outcome == session.Completed {
					completed++
					if other := revisions[res.Revision]; other != "" || res.Revision == 0 {
						t.Errorf("revision %d is of %q and %s", res.Revision, other, req.Scope.Work)
					}
				}
				if res.Revision > 0 {
					revisions[res.Revision] = req.Scope.Work
				}
				mu.Unlock()
				if d.n(10) == 0 {
					s.memory.Advance(time.Duration(d.n(100)) * time.Second) // the hosts were paused
				}
				<-time.After(time.Duration(d.n(60)) * time.Second)
			}
		})
	}
	wg.Wait()
	s.host.Wait()
	p := s.published()
	if completed < 10 || p == nil {
		t.Fatalf("the storm proves little: %d of 400 completed", completed)
	}
	for r, work := range revisions {
		if r > p.Revision {
			t.Errorf("revision %d of %s, and the pointer is at %d", r, work, p.Revision)
		}
	}
	// Machines that are left are known: by an orphan or an intent.
	s.known(t)
}

// known fails for a machine that nobody would ever end.
func (s *stage) known(t *testing.T) {
	t.Helper()
	s.memory.Advance(24 * time.Hour)
	names := map[string]bool{}
	all, err := s.memory.Stores().Orphans.Claim(t.Context(), 1000, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		names[o.Lease.RuntimeID] = true
	}
	intents := map[string]bool{}
	for _, in := range s.intents() {
		intents[in.ID] = true
	}
	for _, l := range s.Machines() {
		m := s.Machine(l.RuntimeID)
		if m != nil && !names[l.RuntimeID] && !intents[m.Name] {
			t.Errorf("machine %s is known to nobody", l.RuntimeID)
		}
	}
}
