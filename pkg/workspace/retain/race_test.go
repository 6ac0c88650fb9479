package retain_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

// TestEachInterleaving puts a whole sweep between any two calls of a writer, and
// a whole writer between any two calls of a sweep, where the sweep drops the
// writer's parent. A write that says that it succeeded can be restored; holds on
// parents are kept in one half of the cases and forgotten in the other.
func TestEachInterleaving(t *testing.T) {
	t.Parallel()
	for _, faithless := range []bool{false, true} {
		for _, sweepInside := range []bool{false, true} {
			succeeded, failed := 0, 0
			for at := 1; ; at++ {
				reached := false
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(uint64(at))
					w.faithless = faithless
					// The policy drops the parent, and what it keeps shares nothing with it.
					parent := w.history(t, 2)[1]
					w.history(t, 1)
					wait(3 * time.Hour)
					write := func(s *blobtest.Faulty) {
						m, err := w.publish(t.Context(), s, parent)
						if err == nil {
							succeeded++
							w.check(t, m.Ref)
						} else if failed++; !refused(err) {
							t.Errorf("write: %v", err)
						}
					}
					clean := func(s *blobtest.Faulty) {
						if _, err := w.sweeper(s, retain.Policy{Last: 1}).Sweep(t.Context()); err != nil {
							t.Errorf("sweep: %v", err)
						}
					}
					inner, outer := write, clean
					if sweepInside {
						inner, outer = clean, write
					}
					calm := blobtest.NewFaulty(&w.store, func(blobtest.Call) blobtest.Fault { return blobtest.Fault{} })
					outer(blobtest.NewFaulty(&w.store, func(c blobtest.Call) (f blobtest.Fault) {
						if c.N == at {
							reached = true
							f.Before = func() { inner(calm) }
						}
						return f
					}))
					wait(50 * time.Hour)
					clean(calm)
					keepNewest(t, w)
				})
				if !reached {
					break
				}
			}
			t.Logf("faithless %v, sweep inside %v: %d writes succeeded, %d refused", faithless, sweepInside, succeeded, failed)
			if succeeded == 0 || failed == 0 {
				t.Error("one of the outcomes has not been seen")
			}
		}
	}
}

// TestPin: a checkpoint that is pinned between any two calls of a sweep that
// drops it, and is usable after that, stays.
func TestPin(t *testing.T) {
	t.Parallel()
	stayed, refused := 0, 0
	for at := 1; ; at++ {
		reached := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(uint64(at))
			all := w.history(t, 3)
			wait(3 * time.Hour)
			usable := false
			s := blobtest.NewFaulty(&w.store, func(c blobtest.Call) (f blobtest.Fault) {
				if c.N == at {
					reached = true
					f.Before = func() {
						w.mu.Lock()
						w.pinned[all[0].Ref] = true
						w.mu.Unlock()
						usable = workspace.Usable(t.Context(), &w.store, all[0].Ref) == nil
					}
				}
				return f
			})
			if _, err := w.sweeper(s, retain.Policy{Last: 1}).Sweep(t.Context()); err != nil {
				t.Errorf("sweep: %v", err)
			}
			if !usable {
				refused++
				return
			}
			stayed++
			w.check(t, all[0].Ref)
			wait(48 * time.Hour)
			if r := sweep(t, w.sweeper(&w.store, retain.Policy{Last: 1})); slices.Contains(r.Unfounded, all[0].Ref) {
				t.Errorf("pinned before call %d and gone", at)
			}
		})
		if !reached {
			break
		}
	}
	if stayed == 0 || refused == 0 {
		t.Errorf("%d pins stayed, %d were refused: one of the outcomes has not been seen", stayed, refused)
	}
}

// TestCondemnedInPassing: a checkpoint that is written and published between any two
// calls of a sweep, by a host whose clock is days behind, never has a tomb: nobody who
// builds on it is refused, not even when the sweep is killed.
func TestCondemnedInPassing(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		reached := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(uint64(at))
			w.history(t, 3)
			wait(3 * time.Hour)
			w.behind = 72 * time.Hour
			var made *workspace.Manifest
			s := blobtest.NewFaulty(&w.store, func(c blobtest.Call) (f blobtest.Fault) {
				if c.N >= at {
					reached = true
					f.Before = func() {
						if made == nil {
							made = w.pinnedOne(t)
						} else if err := workspace.Usable(t.Context(), &w.store, made.Ref); err != nil {
							t.Errorf("published before call %d, and at call %d, %s %s: %v", at, c.N, c.Op, c.Key, err)
						}
					}
				}
				return f
			})
			if _, err := w.sweeper(s, retain.Policy{Last: 1}).Sweep(t.Context()); err != nil {
				t.Errorf("sweep: %v", err)
			}
			if made != nil {
				w.check(t, made.Ref)
			}
		})
		if !reached {
			break
		}
	}
}

// pinnedOne publishes a checkpoint that is pinned before it is let go, as that which
// counts in a workspace is.
func (w *world) pinnedOne(t *testing.T) *workspace.Manifest {
	t.Helper()
	req, disk := w.next(nil)
	m, err := (&checkpoint.Store{Objects: &w.store}).Write(t.Context(), req)
	if err == nil {
		w.mu.Lock()
		w.pinned[m.Ref], w.disks[m.Ref] = true, disk
		w.mu.Unlock()
		err = workspace.Release(t.Context(), &w.store, m.Ref, "writer")
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// keepNewest checks what the policy of these tests keeps.
func keepNewest(t *testing.T, w *world) {
	t.Helper()
	var newest workspace.Ref
	for r := range w.published {
		if r.Checkpoint > newest.Checkpoint {
			newest = r
		}
	}
	w.check(t, newest)
}

// TestManyAtOnce: writers, readers and sweeps, each call of which may take most
// of an hour, so that everything is older than the grace period all the time.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	succeeded, failed := 0, 0
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(seed)
			w.faithless = seed%2 == 1
			all := w.history(t, 4)
			r := rand.New(rand.NewPCG(seed, 8))
			delays := rand.New(rand.NewPCG(seed, 9))
			slow := blobtest.NewFaulty(&w.store, func(blobtest.Call) blobtest.Fault {
				return blobtest.Fault{Delay: time.Duration(delays.Int64N(int64(40 * time.Minute)))}
			})
			var mu sync.Mutex
			want := string(w.disks[all[2].Ref])
			var jobs sync.WaitGroup
			for i := range 2 {
				parent := all[r.IntN(4)]
				jobs.Go(func() {
					for range 3 {
						m, err := w.publish(t.Context(), slow, parent)
						mu.Lock()
						if err == nil {
							parent = m
							succeeded++
						} else if failed++; !refused(err) {
							t.Errorf("seed %d writer %d: %v", seed, i, err)
						}
						mu.Unlock()
					}
				})
				jobs.Go(func() {
					for range 2 {
						if _, err := w.sweeper(slow, retain.Policy{Last: 2}).Sweep(t.Context()); err != nil && !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("seed %d sweep %d: %v", seed, i, err)
						}
					}
				})
			}
			jobs.Go(func() { // a reader gets the bytes or an error
				disk := target(make([]byte, blocks*workspace.Block))
				err := (&checkpoint.Store{Objects: slow}).Restore(t.Context(), all[2], disk)
				if err == nil && string(disk) != want {
					t.Errorf("seed %d: restored other bytes", seed)
				} else if err != nil && !errors.Is(err, workspace.ErrMissing) {
					t.Errorf("seed %d: %v", seed, err)
				}
			})
			jobs.Wait()
			for r := range w.published { // what the store still has is whole
				if m, err := workspace.Load(t.Context(), &w.store, r); err == nil && workspace.Usable(t.Context(), &w.store, r) == nil {
					if damage, err := (&checkpoint.Store{Objects: &w.store}).Verify(t.Context(), m); err != nil || len(damage) > 0 {
						t.Errorf("seed %d: %s: %v %v", seed, r, damage, err)
					}
				}
			}
			keepNewest(t, w)
		})
	}
	t.Logf("%d writes succeeded, %d refused", succeeded, failed)
	if succeeded == 0 {
		t.Error("no write succeeded")
	}
}

func ExamplePolicy_Keep() {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var all []workspace.Checkpoint
	for i := range 48 {
		all = append(all, workspace.Checkpoint{Ref: workspace.Ref{Workspace: "w", Checkpoint: workspace.CheckpointID(fmt.Sprint(i))}, Created: at.Add(time.Duration(i) * time.Hour)})
	}
	fmt.Fprintln(os.Stdout, len(retain.Policy{Last: 5, Daily: 7}.Keep(all)))
	// Output: 7
}
