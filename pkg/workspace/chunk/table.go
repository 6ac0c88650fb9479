package chunk

import (
	"cmp"
	"slices"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// Table is a manifest in the making: runs over chunks, some of which are not
// needed any more.
type Table struct {
	Packs  []workspace.Pack
	Chunks []workspace.Chunk
	Runs   []workspace.Run // sorted

	known map[workspace.Hash]int
}

// NewTable begins with what the parent has; nil is an empty disk.
func NewTable(parent *workspace.Manifest) *Table {
	t := &Table{known: map[workspace.Hash]int{}}
	if parent != nil {
		t.Packs, t.Chunks, t.Runs = slices.Clone(parent.Packs), slices.Clone(parent.Chunks), slices.Clone(parent.Runs)
	}
	for i, c := range t.Chunks {
		t.known[c.Sum] = i
	}
	return t
}

// Find gives the chunk with this content.
func (t *Table) Find(sum workspace.Hash) (int, bool) {
	i, ok := t.known[sum]
	return i, ok
}

// Add adds a chunk and gives its index.
func (t *Table) Add(c workspace.Chunk) int {
	t.Chunks = append(t.Chunks, c)
	t.known[c.Sum] = len(t.Chunks) - 1
	return len(t.Chunks) - 1
}

// Runs says where the blocks of a chunk lie.
func Runs(spans []Span, chunk int) []workspace.Run {
	runs, from := make([]workspace.Run, 0, len(spans)), int64(0)
	for _, s := range spans {
		runs = append(runs, workspace.Run{Start: s.Start, Count: s.Count, Chunk: chunk, From: from})
		from += s.Count
	}
	return runs
}

// Overlay puts runs over what was there, and makes holes of the blocks in holes.
// Neither overlaps itself or the other.
func (t *Table) Overlay(runs []workspace.Run, holes []Span) {
	gone := slices.Clone(holes)
	for _, r := range runs {
		gone = append(gone, Span{r.Start, r.Count})
	}
	out := slices.Clone(runs)
	gone = Union(gone)
	for _, r := range t.Runs {
		for len(gone) > 0 && gone[0].End() <= r.Start {
			gone = gone[1:]
		}
		for _, g := range gone {
			if g.Start >= r.End() {
				break
			}
			if g.Start > r.Start {
				out = append(out, part(r, r.Start, g.Start))
			}
			r = part(r, min(g.End(), r.End()), r.End())
		}
		if r.Count > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b workspace.Run) int { return cmp.Compare(a.Start, b.Start) })
	t.Runs = join(out)
}

func part(r workspace.Run, start, end int64) workspace.Run {
	r.From += start - r.Start
	r.Start, r.Count = start, end-start
	return r
}

func join(runs []workspace.Run) []workspace.Run {
	out := runs[:0]
	for _, r := range runs {
		if last := len(out) - 1; last >= 0 && out[last].Joins(r) {
			out[last].Count += r.Count
			continue
		}
		out = append(out, r)
	}
	return out
}

// Sparse gives blocks whose packs are mostly garbage: less than a quarter of
// what the pack holds is still used. Stored anew they let the pack go. It stops
// at about max blocks, with the emptiest packs first.
func (t *Table) Sparse(maxBlocks int64) []Span {
	blocks := make([]int64, len(t.Chunks))
	for _, r := range t.Runs {
		blocks[r.Chunk] += r.Count
	}
	live, want := make([]float64, len(t.Packs)), make([]int64, len(t.Packs))
	for i, c := range t.Chunks {
		live[c.Pack] += float64(c.Stored) * float64(blocks[i]) / float64(c.Blocks)
		want[c.Pack] += blocks[i]
	}
	var sparse []int
	share := func(p int) float64 { return live[p] / float64(t.Packs[p].Size) }
	for p := range t.Packs {
		if want[p] > 0 && share(p) < 0.25 {
			sparse = append(sparse, p)
		}
	}
	slices.SortStableFunc(sparse, func(a, b int) int { return cmp.Compare(share(a), share(b)) })
	chosen := make([]bool, len(t.Packs))
	for _, p := range sparse {
		if maxBlocks -= want[p]; maxBlocks < 0 {
			break
		}
		chosen[p] = true
	}
	var spans []Span
	for _, r := range t.Runs {
		if chosen[t.Chunks[r.Chunk].Pack] {
			spans = append(spans, Span{r.Start, r.Count})
		}
	}
	return Union(spans)
}

// Fill writes the table into m in a manifest's one form: without chunks and
// packs that nobody needs.
func (t *Table) Fill(m *workspace.Manifest) {
	usedChunk, usedPack := make([]bool, len(t.Chunks)), make([]bool, len(t.Packs))
	for _, r := range t.Runs {
		usedChunk[r.Chunk], usedPack[t.Chunks[r.Chunk].Pack] = true, true
	}
	byKey := func(a, b int) int { return cmp.Compare(t.Packs[a].Key, t.Packs[b].Key) }
	packAt := renumber(usedPack, byKey)
	chunkAt := renumber(usedChunk, func(a, b int) int {
		return cmp.Or(byKey(t.Chunks[a].Pack, t.Chunks[b].Pack), cmp.Compare(t.Chunks[a].Offset, t.Chunks[b].Offset))
	})
	m.Packs, m.Chunks, m.Runs = place(t.Packs, packAt), place(t.Chunks, chunkAt), slices.Clone(t.Runs)
	for i := range m.Chunks {
		m.Chunks[i].Pack = packAt[m.Chunks[i].Pack]
	}
	for i := range m.Runs {
		m.Runs[i].Chunk = chunkAt[m.Runs[i].Chunk]
	}
}

// renumber gives those that are used new numbers, in order; -1 to the others.
func renumber(used []bool, order func(a, b int) int) []int {
	var keep []int
	to := make([]int, len(used))
	for i, u := range used {
		if to[i] = -1; u {
			keep = append(keep, i)
		}
	}
	slices.SortFunc(keep, order)
	for n, i := range keep {
		to[i] = n
	}
	return to
}

func place[T any](all []T, to []int) []T {
	var out []T
	for i, n := range to {
		if n >= 0 {
			out = append(out, make([]T, max(0, n+1-len(out)))...)
			out[n] = all[i]
		}
	}
	return out
}
