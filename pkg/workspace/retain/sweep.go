package retain

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// Times. None of them is needed for safety where stores are consistent.
const (
	// minGrace is the least age of what a sweep drops.
	minGrace = time.Hour
	// tombLife is how long a tomb stays when nothing of its checkpoint is left,
	// and how old one must be for another sweep to lift it from a checkpoint that
	// stays. No sweep removes anything that long after its look.
	tombLife = 7 * 24 * time.Hour
	// maxSweep is how long a sweep may take from its look to its last removal.
	maxSweep = 24 * time.Hour
)

// Roots says what must stay whatever the store looks like.
type Roots interface {
	// Roots gives the checkpoints that were published, and those that stay
	// whatever the policy says: current publications, pins, sources of forks.
	// What was recorded before the call is in it. Who pins a checkpoint that is
	// not held looks at workspace.Usable after the pin has been recorded.
	Roots(ctx context.Context) (published, pinned map[workspace.Ref]bool, err error)
}

// ErrNoRoots says that the store has checkpoints and nobody knows of any, which
// is what another database looks like.
var ErrNoRoots = errors.New("no checkpoint in the store is known: is this the right database?")

// Sweeper removes checkpoints and packs that nobody needs. Sweeps may run at the
// same time as writers, readers and other sweeps, on any host.
type Sweeper struct {
	Objects workspace.Objects
	Roots   Roots
	Policy  Policy
	// Grace is the least age of what goes: of checkpoints that were never
	// published, of packs without a checkpoint, and of holds behind their end.
	// 24 h when zero, 1 h at least: it covers the error of all clocks.
	Grace time.Duration
	// AllowNone sweeps a store of which no checkpoint is published or pinned.
	AllowNone bool
	// DryRun only counts.
	DryRun bool
}

// Report is what a sweep did, or would do.
type Report struct {
	Kept      int             // checkpoints
	Dropped   []workspace.Ref // checkpoints, which the database may forget, and unfinished writes
	Spared    []workspace.Ref // were to be dropped, and somebody was found to need them
	Packs     int             // removed
	Bytes     int64           // of the packs removed
	Unfounded []workspace.Ref // published or pinned, and not in the store
}

// Sweep looks, and removes what is not needed. When it fails, what it has not
// done is done by the next one.
func (s *Sweeper) Sweep(ctx context.Context) (Report, error) {
	w := &sweep{Sweeper: s, now: time.Now(), id: strings.ToLower(rand.Text())}
	if w.Grace == 0 {
		w.grace = 24 * time.Hour
	}
	w.grace = max(w.grace, s.Grace, minGrace)
	ctx, cancel := context.WithDeadline(ctx, w.now.Add(maxSweep))
	defer cancel()
	err := w.run(ctx)
	if err != nil {
		err = fmt.Errorf("sweep: %w", err)
	}
	return w.report, err
}

type sweep struct {
	*Sweeper

	now    time.Time
	id     string
	grace  time.Duration
	report Report

	there map[workspace.Ref]*workspace.Manifest
	dead  map[workspace.Ref]bool
}

// run keeps the order that package workspace asks for: tombs, then holds, then
// roots, then manifests, then removal. What was found to be needed is marked by
// manifests that were read after the tombs were there.
func (w *sweep) run(ctx context.Context) error {
	candidates, err := w.candidates(ctx)
	if err != nil {
		return err
	}
	if !w.DryRun {
		for r := range candidates {
			if err := workspace.Mark(ctx, w.Objects, tombKey(r, w.id)); err != nil {
				return err
			}
		}
	}
	keep, err := w.needed(ctx)
	if err != nil {
		return err
	}
	w.dead = map[workspace.Ref]bool{}
	for r := range candidates {
		if keep[r] {
			w.report.Spared = append(w.report.Spared, r)
			if err := w.remove(ctx, tombKey(r, w.id)); err != nil {
				return err
			}
			continue
		}
		w.dead[r] = true
		w.report.Dropped = append(w.report.Dropped, r)
	}
	used := w.mark()
	for r := range w.dead {
		if w.there[r] != nil {
			if err := errors.Join(w.remove(ctx, workspace.ManifestKey(r)), w.remove(ctx, workspace.PublishedPrefix+r.String())); err != nil {
				return err
			}
		}
	}
	if err := w.packs(ctx, used); err != nil {
		return err
	}
	return w.tidy(ctx, keep)
}

// candidates are old checkpoints that neither the policy, a root nor a hold
// wants, and old packs without a manifest. They are listed before it is asked what
// is needed: whoever wrote them held them before, and lets them go when they have
// been published, so that one that is used is found to be.
func (w *sweep) candidates(ctx context.Context) (map[workspace.Ref]bool, error) {
	found := map[workspace.Ref]bool{}
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	for r, m := range w.there {
		if w.old(m.Created) {
			found[r] = true
		}
	}
	// What has a tomb and no manifest was dropped before: packs knows.
	tombs := map[workspace.Ref]bool{}
	err := w.each(ctx, workspace.TombPrefix, func(r workspace.Ref, o workspace.Info) error {
		tombs[r] = tombs[r] || w.old(o.Modified)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = w.each(ctx, workspace.PackPrefix, func(r workspace.Ref, o workspace.Info) error {
		if w.there[r] == nil && !tombs[r] && w.old(o.Modified) {
			found[r] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	keep, err := w.needed(ctx)
	for r := range keep {
		delete(found, r)
	}
	return found, err
}

func (w *sweep) old(t time.Time) bool { return w.now.Sub(t) > w.grace }

// needed are the checkpoints that are held, pinned, or kept by the policy: holds
// are listed first, because they end when a publication has been recorded.
func (w *sweep) needed(ctx context.Context) (map[workspace.Ref]bool, error) {
	keep := map[workspace.Ref]bool{}
	err := w.each(ctx, workspace.HoldPrefix, func(r workspace.Ref, o workspace.Info) error {
		if !w.old(workspace.HeldUntil(o.Key)) {
			keep[r] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	published, pinned, err := w.Roots.Roots(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask what is published: %w", err)
	}
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	marked := map[workspace.Ref]bool{}
	err = w.each(ctx, workspace.PublishedPrefix, func(r workspace.Ref, _ workspace.Info) error {
		marked[r] = true
		return nil
	})
	if err != nil {
		return nil, err
	}
	return keep, w.rooted(keep, published, pinned, marked)
}

// rooted adds what is pinned and what the policy keeps of what was published. Marks
// in the store are of databases that this one does not know: history, and no proof
// that the database is the right one.
func (w *sweep) rooted(keep, published, pinned, marked map[workspace.Ref]bool) error {
	known, all := maps.Clone(pinned), map[workspace.ID][]workspace.Checkpoint{}
	if known == nil {
		known = map[workspace.Ref]bool{}
	}
	maps.Copy(known, published)
	w.report.Unfounded = nil
	for r := range known {
		m := w.there[r]
		if m == nil {
			w.report.Unfounded = append(w.report.Unfounded, r)
			continue
		}
		all[r.Workspace] = append(all[r.Workspace], workspace.Checkpoint{Ref: r, Created: m.Created})
	}
	if len(all) == 0 && len(w.there) > 0 && !w.AllowNone {
		return ErrNoRoots
	}
	for r := range marked {
		if m := w.there[r]; m != nil && !known[r] {
			all[r.Workspace] = append(all[r.Workspace], workspace.Checkpoint{Ref: r, Created: m.Created})
		}
	}
	for _, history := range all {
		maps.Copy(keep, w.Policy.Keep(history))
	}
	maps.Copy(keep, pinned)
	return nil
}

// load reads all manifests anew. One that cannot be read ends the sweep: nobody
// knows what it needs.
func (w *sweep) load(ctx context.Context) error {
	w.there = map[workspace.Ref]*workspace.Manifest{}
	return w.each(ctx, workspace.ManifestPrefix, func(r workspace.Ref, _ workspace.Info) error {
		m, err := workspace.Load(ctx, w.Objects, r)
		if errors.Is(err, workspace.ErrMissing) {
			return nil // another sweep was faster
		}
		w.there[r] = m
		return err
	})
}

// mark gives the packs that live checkpoints need, by the manifests that needed
// has read since the tombs are there.
func (w *sweep) mark() map[string]bool {
	used := map[string]bool{}
	for r, m := range w.there {
		if w.dead[r] {
			continue
		}
		w.report.Kept++
		for _, p := range m.Packs {
			used[p.Key] = true
		}
	}
	return used
}

// packs removes packs that came with dead checkpoints, those of earlier sweeps
// included, unless a living one uses them.
func (w *sweep) packs(ctx context.Context, used map[string]bool) error {
	gone := map[workspace.Ref]bool{}
	err := w.each(ctx, workspace.TombPrefix, func(r workspace.Ref, o workspace.Info) error {
		// A tomb of another sweep counts when that has finished looking: its
		// manifest is gone then.
		gone[r] = gone[r] || w.dead[r] || w.there[r] == nil && w.old(o.Modified)
		return nil
	})
	if err != nil {
		return err
	}
	if w.DryRun {
		gone = w.dead
	}
	return w.each(ctx, workspace.PackPrefix, func(r workspace.Ref, o workspace.Info) error {
		if !gone[r] || used[o.Key] {
			return nil
		}
		w.report.Packs++
		w.report.Bytes += o.Size
		return w.remove(ctx, o.Key)
	})
}

// tidy removes what only sweeps have a use for: ended holds, old tombs of checkpoints
// that stay or of which nothing is left, and old marks of those that are gone.
func (w *sweep) tidy(ctx context.Context, keep map[workspace.Ref]bool) error {
	left := map[workspace.Ref]bool{}
	err := w.each(ctx, workspace.PackPrefix, func(r workspace.Ref, _ workspace.Info) error {
		left[r] = true
		return nil
	})
	if err != nil {
		return err
	}
	err = w.each(ctx, workspace.TombPrefix, func(r workspace.Ref, o workspace.Info) error {
		if w.now.Sub(o.Modified) > tombLife && (keep[r] || !left[r] && w.there[r] == nil) {
			return w.remove(ctx, o.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = w.each(ctx, workspace.PublishedPrefix, func(r workspace.Ref, o workspace.Info) error {
		if w.there[r] == nil && w.old(o.Modified) {
			return w.remove(ctx, o.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.each(ctx, workspace.HoldPrefix, func(_ workspace.Ref, o workspace.Info) error {
		if w.old(workspace.HeldUntil(o.Key)) {
			return w.remove(ctx, o.Key)
		}
		return nil
	})
}

// each lists all objects below a prefix; a key of another form ends the sweep.
func (w *sweep) each(ctx context.Context, prefix string, fn func(workspace.Ref, workspace.Info) error) error {
	return workspace.All(ctx, w.Objects, prefix, func(o workspace.Info) error {
		r, _, err := workspace.RefOf(o.Key, prefix)
		if err != nil {
			return err
		}
		return fn(r, o)
	})
}

func tombKey(r workspace.Ref, sweep string) string {
	return workspace.TombPrefix + r.String() + "/" + sweep
}

func (w *sweep) remove(ctx context.Context, key string) error {
	if w.DryRun {
		return nil
	}
	// A sweep that slept, by either clock, removes nothing more.
	if err := ctx.Err(); err != nil {
		return err
	}
	if time.Now().Round(0).Sub(w.now.Round(0)) > maxSweep {
		return context.DeadlineExceeded
	}
	return w.Objects.Delete(ctx, key)
}
