// Package retain decides which checkpoints stay, and sweeps the rest out of the
// store without taking anything that somebody still needs: see package workspace
// for the rule that it keeps.
package retain

import (
	"cmp"
	"slices"
	"time"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// Policy says which published checkpoints of a workspace stay. Each line keeps
// the newest of so many of the latest periods that have one at all; what any
// line keeps stays. The newest one always stays. The zero value keeps all.
type Policy struct {
	Last    int
	Hourly  int
	Daily   int
	Weekly  int // ISO weeks
	Monthly int
}

// IsZero says that the policy keeps everything.
func (p Policy) IsZero() bool { return p == Policy{} }

// Keep gives those of the checkpoints of one workspace that stay. Periods are
// UTC.
func (p Policy) Keep(all []workspace.Checkpoint) map[workspace.Ref]bool {
	keep := map[workspace.Ref]bool{}
	newest := slices.SortedFunc(slices.Values(all), func(a, b workspace.Checkpoint) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Checkpoint, a.Checkpoint))
	})
	for i, c := range newest {
		if i < max(1, p.Last) || p.IsZero() {
			keep[c.Ref] = true
		}
	}
	week := func(t time.Time) [2]int {
		y, w := t.ISOWeek()
		return [2]int{y, w}
	}
	for _, line := range []struct {
		n      int
		period func(time.Time) any
	}{
		{p.Hourly, func(t time.Time) any { return t.Truncate(time.Hour) }},
		{p.Daily, func(t time.Time) any { return t.Truncate(24 * time.Hour) }},
		{p.Weekly, func(t time.Time) any { return week(t) }},
		{p.Monthly, func(t time.Time) any { return [2]int{t.Year(), int(t.Month())} }},
	} {
		seen := map[any]bool{}
		for _, c := range newest {
			period := line.period(c.Created.UTC())
			if len(seen) < line.n && !seen[period] {
				seen[period] = true
				keep[c.Ref] = true
			}
		}
	}
	return keep
}
