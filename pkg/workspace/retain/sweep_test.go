package retain_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

func wait(d time.Duration) { <-time.After(d) }

func sweep(t *testing.T, s *retain.Sweeper) retain.Report {
	t.Helper()
	r, err := s.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// history publishes n checkpoints, one an hour.
func (w *world) history(t *testing.T, n int) (all []*workspace.Manifest) {
	t.Helper()
	var parent *workspace.Manifest
	for range n {
		m, err := w.publish(t.Context(), &w.store, parent)
		if err != nil {
			t.Fatal(err)
		}
		parent, all = m, append(all, m)
		wait(time.Hour)
	}
	return all
}

func TestSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(1)
		all := w.history(t, 8)
		w.pinned[all[1].Ref] = true
		// A write that nobody finished, one that nobody published, and one of now.
		req, _ := w.next(all[7])
		_, err := w.publish(t.Context(), blobtest.NewFaulty(&w.store, func(c blobtest.Call) blobtest.Fault {
			return blobtest.Fault{Fatal: c.Op == "put" && strings.HasPrefix(c.Key, workspace.ManifestPrefix)}
		}), all[7])
		if !errors.Is(err, blobtest.ErrInjected) {
			t.Fatal(err)
		}
		lost, err := w.publish(t.Context(), &w.store, all[7])
		if err != nil {
			t.Fatal(err)
		}
		delete(w.published, lost.Ref)
		_ = req

		s := w.sweeper(&w.store, retain.Policy{Last: 2})
		s.DryRun = true
		before := len(w.keys(t, ""))
		if r := sweep(t, s); len(r.Dropped) != 5 || len(w.keys(t, "")) != before {
			t.Errorf("dry run: %+v", r)
		}
		s.DryRun = false
		r := sweep(t, s)
		if len(r.Dropped) != 5 || r.Kept != 4 || len(r.Spared)+len(r.Unfounded) != 0 {
			t.Errorf("first sweep: %+v", r)
		}
		w.check(t, all[1].Ref, all[6].Ref, all[7].Ref)
		wait(30 * time.Hour) // the hold of the unfinished write ends
		if r = sweep(t, s); len(r.Dropped) != 2 || r.Packs < 2 {
			t.Errorf("second sweep: %+v", r)
		}
		w.check(t, all[1].Ref, all[6].Ref, all[7].Ref)
		delete(w.pinned, all[1].Ref)
		delete(w.published, all[1].Ref)
		sweep(t, s)
		for range 3 { // nothing is left but what the two need
			wait(8 * 24 * time.Hour)
			sweep(t, s)
		}
		w.check(t, all[6].Ref, all[7].Ref)
		needed := map[string]bool{}
		for _, m := range all[6:] {
			for _, p := range m.Packs {
				needed[p.Key] = true
			}
		}
		if packs := w.keys(t, workspace.PackPrefix); len(packs) != len(needed) || len(w.keys(t, workspace.HoldPrefix)) != 0 {
			t.Errorf("packs %v, want %v; holds %v", packs, needed, w.keys(t, workspace.HoldPrefix))
		}
		if tombs := w.keys(t, workspace.TombPrefix); len(tombs) > 6 {
			t.Errorf("tombs: %v", tombs)
		}
	})
}

type roots func() (map[workspace.Ref]bool, error)

func (r roots) Roots(context.Context) (_, _ map[workspace.Ref]bool, err error) {
	published, err := r()
	return published, nil, err
}

// TestSweepRefuses: a sweep that does not know enough removes nothing.
func TestSweepRefuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(2)
		all := w.history(t, 4)
		wait(48 * time.Hour)
		before := len(w.keys(t, ""))
		broken := errors.New("database is away")
		s := w.sweeper(&w.store, retain.Policy{Last: 1})
		for _, c := range []struct {
			name  string
			roots roots
			want  error
		}{
			{"no roots", func() (map[workspace.Ref]bool, error) { return nil, nil }, retain.ErrNoRoots},
			{"other database", func() (map[workspace.Ref]bool, error) {
				return map[workspace.Ref]bool{{Workspace: "x", Checkpoint: "y"}: true}, nil
			}, retain.ErrNoRoots},
			{"no database", func() (map[workspace.Ref]bool, error) { return nil, broken }, broken},
		} {
			s.Roots = c.roots
			if _, err := s.Sweep(t.Context()); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		s.Roots = w
		key := workspace.ManifestKey(all[3].Ref)
		w.store.Damage(key, func(b []byte) []byte { b[40] ^= 1; return b })
		var at *workspace.DamageError
		if _, err := s.Sweep(t.Context()); !errors.As(err, &at) || at.Key != key {
			t.Errorf("damaged manifest: %v", err)
		}
		w.store.Damage(key, func(b []byte) []byte { b[40] ^= 1; return b })
		if after := len(w.keys(t, "")); after != before {
			t.Errorf("%d objects, before %d", after, before)
		}
		sweep(t, s)
		w.check(t, all[3].Ref)
	})
}

// TestSweepBroken breaks a sweep at each of its calls; the next ones finish, and
// nothing that is needed goes.
func TestSweepBroken(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		broke := false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(3)
			all := w.history(t, 5)
			wait(2 * time.Hour)
			faulty := blobtest.NewFaulty(&w.store, func(c blobtest.Call) blobtest.Fault {
				broke = broke || c.N >= at
				return blobtest.Fault{Fatal: c.N > at, Lost: c.N == at}
			})
			_, err := w.sweeper(faulty, retain.Policy{Last: 1}).Sweep(t.Context())
			if broke && !errors.Is(err, blobtest.ErrInjected) {
				t.Errorf("broken at call %d: %v", at, err)
			}
			w.check(t, all[4].Ref)
			for range 3 {
				wait(8 * 24 * time.Hour)
				sweep(t, w.sweeper(&w.store, retain.Policy{Last: 1}))
			}
			w.check(t, all[4].Ref)
			if packs := w.keys(t, workspace.PackPrefix); len(packs) != len(all[4].Packs) {
				t.Errorf("broken at call %d: packs %v, needed %d", at, packs, len(all[4].Packs))
			}
			if left := w.keys(t, workspace.ManifestPrefix); len(left) != 1 {
				t.Errorf("broken at call %d: manifests %v", at, left)
			}
		})
		if !broke {
			break
		}
	}
}

// TestHistoryOfOtherDatabases: what others have published is kept by the policy, not
// dropped as if it had never counted; marks alone are no proof of the right database,
// and go with what they mark.
func TestHistoryOfOtherDatabases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(5)
		theirs := w.history(t, 3)
		for _, m := range theirs {
			if err := workspace.MarkPublished(t.Context(), &w.store, m.Ref); err != nil {
				t.Fatal(err)
			}
		}
		w.mu.Lock()
		clear(w.published)
		w.mu.Unlock()
		wait(48 * time.Hour)
		if _, err := w.sweeper(&w.store, retain.Policy{Last: 1}).Sweep(t.Context()); !errors.Is(err, retain.ErrNoRoots) {
			t.Errorf("by another database: %v", err)
		}
		own := w.history(t, 1)
		if r := sweep(t, w.sweeper(&w.store, retain.Policy{})); len(r.Dropped) != 0 || len(r.Unfounded) != 0 {
			t.Errorf("without a policy: %+v", r)
		}
		if r := sweep(t, w.sweeper(&w.store, retain.Policy{Last: 2})); len(r.Dropped) != 2 {
			t.Errorf("the last two: %+v", r)
		}
		w.check(t, theirs[2].Ref, own[0].Ref)
		if got := w.keys(t, workspace.PublishedPrefix); len(got) != 1 || !strings.HasSuffix(got[0], theirs[2].String()) {
			t.Errorf("marks: %q", got)
		}
	})
}
