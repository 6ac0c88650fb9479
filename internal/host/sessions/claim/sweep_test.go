package claim_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/claim"
	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace"
)

const root = "things/"

func space(o workspace.Objects) claim.Space { return claim.Space{Objects: o, Root: root} }

// sweeper needs what it is told to.
func sweeper(o workspace.Objects, needed ...string) *claim.Sweeper {
	return &claim.Sweeper{Space: space(o), Kinds: []string{"whole/", "parts/"}, Needed: func(context.Context, map[string]bool) (map[string]bool, error) {
		all := map[string]bool{}
		for _, n := range needed {
			all[n] = true
		}
		return all, nil
	}}
}

func put(t *testing.T, o workspace.Objects, keys ...string) {
	t.Helper()
	for _, key := range keys {
		if err := o.Put(t.Context(), root+key, strings.NewReader("four"), 4); err != nil {
			t.Fatal(err)
		}
	}
}

func keys(t *testing.T, o workspace.Objects) string {
	t.Helper()
	all, err := o.List(t.Context(), root, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, b := range all {
		key := strings.TrimPrefix(b.Key, root)
		if strings.HasPrefix(key, "tombs/") || strings.HasPrefix(key, "holds/") {
			key, _, _ = strings.Cut(key, ".")
			key = key[:strings.LastIndexByte(key, '/')]
		}
		list = append(list, key)
	}
	return strings.Join(slices.Compact(list), " ")
}

// TestSweep drops what is old, and neither needed nor held.
func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var m blobtest.Memory
		put(t, &m, "whole/a/1", "parts/a/x", "parts/a/y", "whole/b/1", "parts/b/x", "parts/c/x", "whole/d/1", "stray")
		if err := space(&m).Hold(t.Context(), "d", "r"); err != nil {
			t.Fatal(err)
		}
		if r, err := sweeper(&m, "b").Sweep(t.Context()); err != nil || r.Kept != 4 || len(r.Dropped) != 0 {
			t.Errorf("all are young: %+v, %v", r, err)
		}
		<-time.After(25 * time.Hour)
		put(t, &m, "parts/young/x")
		before := keys(t, &m)
		dry := sweeper(&m, "b")
		dry.DryRun = true
		if r, err := dry.Sweep(t.Context()); err != nil || !slices.Equal(r.Dropped, []string{"a", "c"}) || r.Objects != 4 || r.Bytes != 16 || keys(t, &m) != before {
			t.Errorf("only looked: %+v, %v, %s", r, err, keys(t, &m))
		}
		if r, err := sweeper(&m, "b").Sweep(t.Context()); err != nil || !slices.Equal(r.Dropped, []string{"a", "c"}) || r.Kept != 3 || r.Objects != 4 || r.Bytes != 16 {
			t.Errorf("swept: %+v, %v", r, err)
		}
		if got, want := keys(t, &m), "holds/d parts/b/x parts/young/x stray tombs/a tombs/c whole/b/1 whole/d/1"; got != want {
			t.Errorf("left: %s", got)
		}
		for name, want := range map[string]error{"a": claim.ErrDropped, "c": claim.ErrDropped, "b": nil, "d": nil} {
			if err := space(&m).Dropped(t.Context(), name); !errors.Is(err, want) {
				t.Errorf("%s: %v", name, err)
			}
		}
		<-time.After(8 * 24 * time.Hour) // the hold has ended, and tombs of what is gone are of no use
		if _, err := sweeper(&m, "b").Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if got, want := keys(t, &m), "parts/b/x stray tombs/d tombs/young whole/b/1"; got != want {
			t.Errorf("left in the end: %s", got)
		}
	})
}

// TestEachInterleaving puts a whole sweep between any two calls of a holder, and a
// holder between any two calls of a sweep. Who holds something and then finds no tomb
// has it whole; who is refused is told so.
func TestEachInterleaving(t *testing.T) {
	t.Parallel()
	for _, sweepInside := range []bool{false, true} {
		had, refused := 0, 0
		for at := 1; ; at++ {
			reached := false
			synctest.Test(t, func(t *testing.T) {
				var m blobtest.Memory
				put(t, &m, "whole/a/1", "parts/a/x", "parts/a/y")
				<-time.After(25 * time.Hour)
				got := errors.New("not asked")
				take := func(o blob.Store) {
					s := space(o)
					if got = s.Hold(t.Context(), "a", "r"); got == nil {
						got = s.Dropped(t.Context(), "a")
					}
				}
				sweep := func(o blob.Store) {
					if _, err := sweeper(o).Sweep(t.Context()); err != nil {
						t.Errorf("sweep: %v", err)
					}
				}
				inner, outer := take, sweep
				if sweepInside {
					inner, outer = sweep, take
				}
				outer(blobtest.NewFaulty(&m, func(c blobtest.Call) (f blobtest.Fault) {
					if c.N == at {
						reached = true
						f.Before = func() { inner(&m) }
					}
					return f
				}))
				if !reached {
					return
				}
				all := keys(t, &m)
				whole := strings.Contains(all, "parts/a/x parts/a/y") && strings.Contains(all, "whole/a/1")
				switch {
				case got == nil && !whole:
					t.Errorf("held before call %d, and gone: %s", at, all)
				case got == nil:
					had++
				case errors.Is(got, claim.ErrDropped):
					refused++
				default:
					t.Errorf("hold: %v", got)
				}
			})
			if !reached {
				break
			}
		}
		if had == 0 || refused == 0 {
			t.Errorf("sweep inside %v: %d had it, %d were refused: one of the outcomes has not been seen", sweepInside, had, refused)
		}
	}
}

// TestSweepKilledAnywhere: the next one does the rest, and what is needed stays whole.
func TestSweepKilledAnywhere(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		killed := false
		synctest.Test(t, func(t *testing.T) {
			var m blobtest.Memory
			put(t, &m, "whole/a/1", "parts/a/x", "parts/a/y", "whole/b/1", "parts/b/x")
			<-time.After(25 * time.Hour)
			_, err := sweeper(blobtest.NewFaulty(&m, func(c blobtest.Call) (f blobtest.Fault) {
				f.Fatal = c.N >= at
				killed = killed || f.Fatal
				return f
			}), "b").Sweep(t.Context())
			if killed == (err == nil) {
				t.Errorf("killed at call %d: %v", at, err)
			}
			if r, err := sweeper(&m, "b").Sweep(t.Context()); err != nil || r.Kept != 1 {
				t.Errorf("after call %d: %+v, %v", at, r, err)
			}
			if got, want := keys(t, &m), "parts/b/x tombs/a whole/b/1"; got != want {
				t.Errorf("after call %d there is %s", at, got)
			}
		})
		if !killed {
			break
		}
	}
}
