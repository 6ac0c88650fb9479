package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/reconcile"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
)

// bed is a world and a reconciler in a bubble.
type bed struct {
	*world.World

	t      *testing.T
	stores session.Stores
	seen   []session.Backlog
	r      *reconcile.Reconciler
}

func in(t *testing.T, f func(*bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		stores := sessiontest.NewMemory().Stores()
		b := &bed{World: world.New(stores), t: t, stores: stores}
		b.r = reconcile.New(reconcile.Config{
			Stores: b.Stores, Sandbox: b.Sandbox(), Allocations: b.Sandbox(),
			Observe: func(l session.Backlog) { b.seen = append(b.seen, l) },
		})
		f(b)
	})
}

// machine allocates one under a tenure's intent.
func (b *bed) machine(generation int64) session.Lease {
	b.t.Helper()
	t := sessiontest.Tenure(generation)
	l, err := b.Sandbox().Acquire(b.t.Context(), session.Allocation{Tenure: t, Name: session.NewIntent(t).ID})
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func (b *bed) orphan(generation int64, l session.Lease) {
	b.t.Helper()
	if err := b.stores.Orphans.Enqueue(b.t.Context(), session.NewOrphan(sessiontest.Tenure(generation), l, session.ReasonFailed, nil)); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) pass() {
	b.t.Helper()
	if err := b.r.Pass(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) last() session.Backlog { return b.seen[len(b.seen)-1] }

func TestReaps(t *testing.T) {
	t.Parallel()
	in(t, func(b *bed) {
		l := b.machine(1)
		b.orphan(1, l)
		b.pass()
		if len(b.Leaks()) > 0 || b.last().Total != 0 {
			b.t.Fatal(b.Leaks(), b.last())
		}
		// Gone already is success.
		b.orphan(1, l)
		b.pass()
		if b.last().Total != 0 {
			b.t.Fatal(b.last())
		}
	})
}

// TestBackoff: attempts become rarer, and the count tells.
func TestBackoff(t *testing.T) {
	t.Parallel()
	in(t, func(b *bed) {
		b.orphan(1, b.machine(1))
		b.Before("sandbox.reap", world.Fail(errors.New("qmp is silent")))
		ctx, cancel := context.WithTimeout(b.t.Context(), 24*time.Hour)
		defer cancel()
		if err := b.r.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			b.t.Fatal(err)
		}
		// 5 s, 10 s, … to 1 h, then every hour.
		if n := b.Count("sandbox.reap"); n < 31 || n > 35 {
			b.t.Fatalf("%d attempts in a day", n)
		}
		if l := b.last(); l.Total != 1 || l.MaxAttempts != b.Count("sandbox.reap") || l.Oldest < 23*time.Hour {
			b.t.Fatalf("backlog %+v", l)
		}
		b.Before("sandbox.reap", nil)
		<-time.After(time.Hour)
		b.pass()
		if len(b.Leaks()) > 0 || b.last().Total != 0 {
			b.t.Fatal(b.Leaks(), b.last())
		}
	})
	r := reconcile.New(reconcile.Config{})
	for attempts, want := range map[int]time.Duration{0: 5 * time.Second, 1: 10 * time.Second, 9: 2560 * time.Second, 10: time.Hour, 1 << 40: time.Hour} {
		if got := r.Backoff(attempts); got != want {
			t.Errorf("after %d attempts %s, want %s", attempts, got, want)
		}
	}
}

// picky reaps no machines of others.
type picky struct {
	world.Sandbox

	hook world.Hook
}

// Reap implements reconcile.Reaper.
func (p picky) Reap(ctx context.Context, s session.Scope, l session.Lease, r session.Reason) error {
	if l.Provider != world.Provider {
		return p.hook(ctx, 1)
	}
	return p.Sandbox.Reap(ctx, s, l, r)
}

// TestNoStarvation: many that fail or hang keep none waiting.
func TestNoStarvation(t *testing.T) {
	t.Parallel()
	for name, hook := range map[string]world.Hook{"fail": world.Fail(errors.New("no")), "hang": world.Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(b *bed) {
				for i := range 40 {
					b.orphan(1, session.Lease{Provider: "a-foreign", RuntimeID: fmt.Sprint("bad", i)})
				}
				good := b.machine(1)
				b.orphan(1, good)
				r := reconcile.New(reconcile.Config{Stores: b.Stores, Sandbox: picky{b.Sandbox(), hook}, Allocations: b.Sandbox()})
				for range 5 {
					if err := r.Pass(b.t.Context()); err == nil && b.Machine(good.RuntimeID) != nil {
						b.t.Fatal("no word of those that fail")
					}
				}
				if b.Machine(good.RuntimeID) != nil {
					b.t.Fatal("it never had its turn")
				}
			})
		})
	}
}

// TestWedgedReap: a sandbox that does not listen to its context.
func TestWedgedReap(t *testing.T) {
	t.Parallel()
	in(t, func(b *bed) {
		b.orphan(1, b.machine(1))
		release := make(chan struct{})
		b.Before("sandbox.reap", world.Wedge(release))
		began := time.Now()
		if err := b.r.Pass(b.t.Context()); err == nil || time.Since(began) != time.Minute {
			b.t.Fatalf("%v after %s", err, time.Since(began))
		}
		close(release)
		synctest.Wait()
		if b.last().MaxAttempts != 1 {
			b.t.Fatal(b.last())
		}
	})
}

// hold makes a fence of generation 1 that its holder lost.
func (b *bed) lost(draft *session.Draft) session.Tenure {
	b.t.Helper()
	c, err := b.stores.Fences.Acquire(b.t.Context(), sessiontest.Scope("w"), session.Claimant{Owner: "o", Token: session.NewSecret()}, time.Minute)
	if err == nil && draft != nil {
		_, err = b.stores.Fences.Publish(b.t.Context(), c.Fence, *draft)
	}
	if err == nil {
		err = b.stores.Intents.Begin(b.t.Context(), session.NewIntent(c.Fence.Tenure))
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return c.Fence.Tenure
}

func TestIntents(t *testing.T) {
	t.Parallel()
	t.Run("machine of a live holder", func(t *testing.T) {
		t.Parallel()
		in(t, func(b *bed) {
			b.lost(nil)
			l := b.machine(1)
			b.pass()
			if b.Machine(l.RuntimeID) == nil {
				b.t.Fatal("it was ended under its holder")
			}
			<-time.After(2 * time.Minute)
			b.pass()
			if b.Machine(l.RuntimeID) != nil {
				b.t.Fatal("it outlived its holder")
			}
		})
	})
	t.Run("allocated late", func(t *testing.T) {
		t.Parallel()
		in(t, func(b *bed) {
			b.lost(nil)
			<-time.After(30 * time.Minute)
			b.pass() // nothing there, and not believed
			l := b.machine(1)
			b.pass()
			if b.Machine(l.RuntimeID) != nil {
				b.t.Fatal("a machine that came late leaks")
			}
		})
	})
	t.Run("nothing was allocated", func(t *testing.T) {
		t.Parallel()
		in(t, func(b *bed) {
			b.lost(nil)
			<-time.After(2 * time.Hour)
			b.pass()
			if all, _, err := b.stores.Intents.Abandoned(b.t.Context(), "", 1); err != nil || len(all) > 0 {
				b.t.Fatal(all, err)
			}
		})
	})
	t.Run("retained machine", func(t *testing.T) {
		t.Parallel()
		in(t, func(b *bed) {
			l := b.machine(1)
			d := sessiontest.Draft("a")
			d.Retained = &l
			tenure := b.lost(&d)
			b.orphan(1, l) // its host did not know that it was published
			<-time.After(2 * time.Hour)
			b.pass()
			b.pass()
			if b.Machine(l.RuntimeID) == nil || b.last().Total != 0 {
				b.t.Fatal("the only copy of the workspace was ended")
			}
			// Superseded, it goes.
			c, err := b.stores.Fences.Acquire(b.t.Context(), tenure.Scope, session.NewClaimant("h"), time.Minute)
			if err == nil {
				_, err = b.stores.Fences.Publish(b.t.Context(), c.Fence, sessiontest.Draft("b"))
			}
			if err != nil {
				b.t.Fatal(err)
			}
			b.pass()
			if b.Machine(l.RuntimeID) != nil {
				b.t.Fatal("a machine that nothing names leaks")
			}
		})
	})
	t.Run("provider cannot be asked", func(t *testing.T) {
		t.Parallel()
		in(t, func(b *bed) {
			b.lost(nil)
			l := b.machine(1)
			<-time.After(2 * time.Hour)
			b.Before("sandbox.allocated", world.Fail(errors.New("down")))
			if err := b.r.Pass(b.t.Context()); err == nil {
				b.t.Fatal("no error")
			}
			b.Before("sandbox.allocated", nil)
			b.pass()
			if b.Machine(l.RuntimeID) != nil {
				b.t.Fatal("the intent was forgotten")
			}
		})
	})
}

// TestOldOrphan: an orphan of an old incarnation leaves the resumed machine alone.
func TestOldOrphan(t *testing.T) {
	t.Parallel()
	in(t, func(b *bed) {
		first := b.machine(1)
		sealed, err := b.Sandbox().Suspend(b.t.Context(), sessiontest.Tenure(1), first)
		if err != nil {
			b.t.Fatal(err)
		}
		resumed, err := b.Sandbox().Acquire(b.t.Context(), session.Allocation{Tenure: sessiontest.Tenure(2), Name: "n", Resume: &sealed})
		if err != nil {
			b.t.Fatal(err)
		}
		b.orphan(1, first)
		b.orphan(1, sealed)
		b.pass()
		if b.Machine(resumed.RuntimeID) == nil {
			b.t.Fatal("an old orphan ended a resumed machine")
		}
	})
}
