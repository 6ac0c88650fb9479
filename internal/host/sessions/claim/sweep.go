package claim

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// Times. None of them is needed for safety where stores are consistent.
const (
	// grace is the least age of what a sweep drops, and of holds behind their end: it
	// covers the error of all clocks.
	grace = 24 * time.Hour
	// maxSweep is how long a sweep may take from its look to its last removal.
	maxSweep = 24 * time.Hour
	// tombLife is how long a tomb stays of which nothing is left, and how old one must
	// be for another sweep to lift it from a thing that stays.
	tombLife = 7 * 24 * time.Hour
)

// Sweeper removes things that nobody needs. Sweeps may run at the same time as those
// who hold things and as other sweeps, on any host, and be killed at any step.
type Sweeper struct {
	Space

	// Kinds are where the objects of things lie below Root, each with a slash at its
	// end, in the order in which they go: what makes a thing whole goes first.
	Kinds []string
	// Needed says what must stay besides what is held. What was recorded before the
	// call is in its answer. It is called twice, with the things that were there
	// before it was called.
	Needed func(ctx context.Context, there map[string]bool) (map[string]bool, error)
	// DryRun only counts.
	DryRun bool
}

// Report is what a sweep did, or would do.
type Report struct {
	Kept    int      // things
	Dropped []string // things, those of which an earlier sweep has left something too
	Spared  []string // were to be dropped, and somebody was found to need them
	Objects int      // removed, without claims
	Bytes   int64
}

// thing is what is known of one.
type thing struct {
	newest  time.Time
	objects int
	bytes   int64
}

type sweep struct {
	*Sweeper

	now time.Time
	id  string
}

// Sweep looks, and removes what is not needed. When it fails, what it has not done is
// done by the next one.
func (s *Sweeper) Sweep(ctx context.Context) (Report, error) {
	w := &sweep{Sweeper: s, now: time.Now(), id: strings.ToLower(rand.Text())}
	ctx, cancel := context.WithDeadline(ctx, w.now.Add(maxSweep))
	defer cancel()
	r, err := w.run(ctx)
	if err != nil {
		err = fmt.Errorf("sweep %s: %w", strings.TrimSuffix(s.Root, "/"), err)
	}
	return r, err
}

// run keeps the order: tombs, then holds, then what is needed, then removal.
func (w *sweep) run(ctx context.Context) (r Report, err error) {
	there, needed, err := w.look(ctx)
	if err != nil {
		return r, err
	}
	candidates := w.candidates(there, needed)
	if !w.DryRun && len(candidates) > 0 {
		for _, name := range candidates {
			if err := workspace.Mark(ctx, w.Objects, w.tomb(name)); err != nil {
				return r, err
			}
		}
		if there, needed, err = w.look(ctx); err != nil {
			return r, err
		}
	}
	if err := w.decide(ctx, candidates, needed, &r); err != nil {
		return r, err
	}
	for name := range there {
		if _, dropped := slices.BinarySearch(r.Dropped, name); !dropped {
			r.Kept++
		}
	}
	for _, name := range r.Dropped {
		if err := w.drop(ctx, name, there[name], &r); err != nil {
			return r, err
		}
	}
	return r, w.tidy(ctx, there, needed)
}

// candidates are old things that nobody needs, by name.
func (w *sweep) candidates(there map[string]*thing, needed map[string]bool) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if !needed[name] && w.old(there[name].newest) {
			list = append(list, name)
		}
	}
	return list
}

// decide lifts the tombs of what was found to be needed.
func (w *sweep) decide(ctx context.Context, candidates []string, needed map[string]bool, r *Report) error {
	for _, name := range candidates {
		if !needed[name] {
			r.Dropped = append(r.Dropped, name)
			continue
		}
		r.Spared = append(r.Spared, name)
		if err := w.remove(ctx, w.tomb(name)); err != nil {
			return err
		}
	}
	return nil
}

// look lists what is there and what of it is needed. First what is there: whoever
// made it held it before, and lets it go when its use has been recorded, so that it
// is found in one of the lists behind. Between these two holds come first, for the
// same reason.
func (w *sweep) look(ctx context.Context) (map[string]*thing, map[string]bool, error) {
	there, err := w.things(ctx)
	if err != nil {
		return nil, nil, err
	}
	held := map[string]bool{}
	err = w.Each(ctx, holds, func(name string, o workspace.Info) error {
		held[name] = held[name] || !w.old(workspace.HeldUntil(o.Key))
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	names := map[string]bool{}
	for name := range there {
		names[name] = true
	}
	needed, err := w.Needed(ctx, names)
	if err != nil {
		return nil, nil, err
	}
	for name := range held {
		if held[name] {
			needed[name] = true
		}
	}
	return there, needed, nil
}

// things lists what is there.
func (w *sweep) things(ctx context.Context) (map[string]*thing, error) {
	there := map[string]*thing{}
	for _, kind := range w.Kinds {
		err := w.Each(ctx, kind, func(name string, o workspace.Info) error {
			if there[name] == nil {
				there[name] = &thing{}
			}
			t := there[name]
			t.objects++
			t.bytes += o.Size
			if o.Modified.After(t.newest) {
				t.newest = o.Modified
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return there, nil
}

func (w *sweep) old(t time.Time) bool { return w.now.Sub(t) > grace }

func (w *sweep) tomb(name string) string { return w.Root + tombs + name + "/" + w.id }

// drop removes all of a thing. What comes later, of somebody who has not looked, is
// the next sweep's.
func (w *sweep) drop(ctx context.Context, name string, was *thing, r *Report) error {
	if w.DryRun {
		r.Objects += was.objects
		r.Bytes += was.bytes
		return nil
	}
	for _, kind := range w.Kinds {
		err := w.Each(ctx, kind+name+"/", func(_ string, o workspace.Info) error {
			if err := w.remove(ctx, o.Key); err != nil {
				return err
			}
			r.Objects++
			r.Bytes += o.Size
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// tidy removes what only sweeps have a use for: ended holds, and old tombs of things
// that stay or of which nothing is left.
func (w *sweep) tidy(ctx context.Context, there map[string]*thing, needed map[string]bool) error {
	err := w.Each(ctx, tombs, func(name string, o workspace.Info) error {
		if w.now.Sub(o.Modified) > tombLife && (needed[name] || there[name] == nil) {
			return w.remove(ctx, o.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return w.Each(ctx, holds, func(_ string, o workspace.Info) error {
		if w.old(workspace.HeldUntil(o.Key)) {
			return w.remove(ctx, o.Key)
		}
		return nil
	})
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

// Each lists all objects below a prefix, with the name of the thing that they belong
// to: the segment behind the prefix's first one. What lies there under another form of
// name is nobody's.
func (s Space) Each(ctx context.Context, prefix string, fn func(name string, o workspace.Info) error) error {
	return workspace.All(ctx, s.Objects, s.Root+prefix, func(o workspace.Info) error {
		part := strings.SplitN(strings.TrimPrefix(o.Key, s.Root), "/", 3)
		if len(part) < 3 {
			return nil
		}
		return fn(part[1], o)
	})
}
