package chunk_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/chunk"
)

func TestSpans(t *testing.T) {
	t.Parallel()
	const size = 100 * workspace.Block
	for _, c := range []struct {
		name string
		in   []workspace.Extent
		want []chunk.Span
	}{
		{"none", nil, nil},
		{"empty", []workspace.Extent{{Offset: 5, Length: 0}}, nil},
		{"a byte", []workspace.Extent{{Offset: 4095, Length: 1}}, []chunk.Span{{0, 1}}},
		{"over an edge", []workspace.Extent{{Offset: 4095, Length: 2}}, []chunk.Span{{0, 2}}},
		{"unsorted, overlapping, touching", []workspace.Extent{{Offset: 40960, Length: 4096}, {Offset: 0, Length: 4096}, {Offset: 4096, Length: 8192}, {Offset: 8192, Length: 10}}, []chunk.Span{{0, 3}, {10, 1}}},
		{"whole", []workspace.Extent{{Offset: 0, Length: size}}, []chunk.Span{{0, 100}}},
	} {
		got, err := chunk.Spans(c.in, size)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", c.name, err, diff)
		}
	}
	for _, bad := range []workspace.Extent{{Offset: 0, Length: size + 1}, {Offset: -1, Length: 2}, {Offset: size, Length: 1}, {Offset: 1, Length: 1<<63 - 1}, {Offset: 0, Length: -1}} {
		if _, err := chunk.Spans([]workspace.Extent{bad}, size); !errors.Is(err, workspace.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// TestOverlay compares tables with an array that says for each block where it
// comes from.
func TestOverlay(t *testing.T) {
	t.Parallel()
	const blocks = 60
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 2))
		table := chunk.NewTable(nil)
		want := [blocks]string{}
		for step := range 6 {
			table.Packs = append(table.Packs, workspace.Pack{Key: workspace.PackKey(workspace.Ref{Workspace: "w", Checkpoint: "c"}, 9-step, workspace.Hash{}), Size: 1 << 20})
			var runs, holes []chunk.Span
			for at := r.Int64N(20); at < blocks; at += 1 + r.Int64N(20) {
				s := chunk.Span{Start: at, Count: min(1+r.Int64N(9), blocks-at)}
				if at = s.End(); r.IntN(3) == 0 {
					holes = append(holes, s)
				} else {
					runs = append(runs, s)
				}
			}
			n := table.Add(workspace.Chunk{Sum: workspace.Hash{byte(step)}, Pack: step, Stored: 1, Blocks: chunk.Max})
			table.Overlay(chunk.Runs(runs, n), holes)
			from := 0
			for _, s := range runs {
				for b := s.Start; b < s.End(); b++ {
					want[b] = fmt.Sprint(step, from)
					from++
				}
			}
			for _, s := range holes {
				for b := s.Start; b < s.End(); b++ {
					want[b] = ""
				}
			}
		}
		m := &workspace.Manifest{Ref: workspace.Ref{Workspace: "w", Checkpoint: "c"}, Size: blocks * workspace.Block, Created: time.Unix(0, 0)}
		table.Fill(m)
		if err := m.Validate(); err != nil && !errors.Is(err, workspace.ErrEmpty) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got := [blocks]string{}
		for _, run := range m.Runs {
			for i := range run.Count {
				got[run.Start+i] = fmt.Sprint(m.Chunks[run.Chunk].Sum[0], run.From+i)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
}

func TestSparse(t *testing.T) {
	t.Parallel()
	table := &chunk.Table{
		Packs: []workspace.Pack{{Key: "a", Size: 1000}, {Key: "b", Size: 1000}, {Key: "c", Size: 1000}},
		Chunks: []workspace.Chunk{
			{Pack: 0, Stored: 1000, Blocks: 100}, {Pack: 1, Stored: 1000, Blocks: 100}, {Pack: 2, Stored: 1000, Blocks: 100},
		},
		Runs: []workspace.Run{{Start: 0, Count: 20, Chunk: 0}, {Start: 20, Count: 50, Chunk: 1}, {Start: 70, Count: 10, Chunk: 2}},
	}
	for _, c := range []struct {
		budget int64
		want   []chunk.Span
	}{{5, nil}, {10, []chunk.Span{{70, 10}}}, {100, []chunk.Span{{0, 20}, {70, 10}}}} {
		if diff := cmp.Diff(c.want, table.Sparse(c.budget)); diff != "" {
			t.Errorf("budget %d: %s", c.budget, diff)
		}
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	const blocks = 2*chunk.Max + 10
	r := rand.NewChaCha8([32]byte{3})
	disk := make([]byte, blocks*workspace.Block)
	_, _ = r.Read(disk)
	clear(disk[5*workspace.Block : 7*workspace.Block])
	base := slices.Clone(disk[:100*workspace.Block]) // shorter: zeros follow
	disk[3*workspace.Block] ^= 1
	clear(disk[150*workspace.Block : 151*workspace.Block]) // the same as in the base
	base[5*workspace.Block] = 1                            // became zero

	cut := func(base io.ReaderAt) (spans []chunk.Span, sizes []int, holes []chunk.Span, data int64) {
		c := chunk.Cutter{Source: bytes.NewReader(disk), Base: base, Emit: func(p chunk.Piece) error {
			for at := 0; len(p.Spans) > 0; p.Spans = p.Spans[1:] {
				s := p.Spans[0]
				part := p.Data[at : at+int(s.Count)*workspace.Block]
				if !bytes.Equal(part, disk[s.Start*workspace.Block:s.End()*workspace.Block]) {
					t.Errorf("other bytes at %+v", s)
				}
				at += len(part)
				spans = append(spans, s)
			}
			sizes = append(sizes, len(p.Data)/workspace.Block)
			return nil
		}}
		holes, data, err := c.Cut(t.Context(), []chunk.Span{{0, blocks}})
		if err := errors.Join(err, c.Flush()); err != nil {
			t.Fatal(err)
		}
		return spans, sizes, holes, data
	}
	spans, sizes, holes, data := cut(nil)
	if diff := cmp.Diff([]chunk.Span{{5, 2}, {150, 1}}, holes); diff != "" || data != (blocks-3)*workspace.Block {
		t.Errorf("holes: %s; %d bytes", diff, data)
	}
	if diff := cmp.Diff([]int{chunk.Max, chunk.Max, 7}, sizes); diff != "" || chunk.Union(spans)[0].Count != 5 {
		t.Errorf("chunks: %s", diff)
	}
	spans, _, holes, _ = cut(bytes.NewReader(base))
	if diff := cmp.Diff([]chunk.Span{{3, 1}, {100, 50}, {151, blocks - 151}}, chunk.Union(spans)); diff != "" {
		t.Errorf("against a base: %s", diff)
	}
	if diff := cmp.Diff([]chunk.Span{{5, 1}}, holes); diff != "" {
		t.Errorf("holes against a base: %s", diff)
	}

	short := chunk.Cutter{Source: bytes.NewReader(disk[:workspace.Block+1]), Emit: func(chunk.Piece) error { return nil }}
	if _, _, err := short.Cut(t.Context(), []chunk.Span{{0, 2}}); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("source that ends early: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := short.Cut(ctx, []chunk.Span{{0, 1}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestCodec(t *testing.T) {
	t.Parallel()
	plain, err := chunk.NewCodec(nil)
	if err != nil {
		t.Fatal(err)
	}
	keyed, err := chunk.NewCodec([]byte("key"))
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("deskfork"), 2*workspace.Block/8)
	if plain.Sum(data) == keyed.Sum(data) || plain.Keyed() || !keyed.Keyed() {
		t.Error("the key does not change the hash")
	}
	stored := plain.Pack(data)
	want := workspace.Chunk{Sum: plain.Sum(data), Blocks: 2}
	if got, err := plain.Open(stored, want); err != nil || !bytes.Equal(got, data) || len(stored) > 200 {
		t.Errorf("open %d bytes: %v", len(stored), err)
	}
	for i := range stored {
		bad := slices.Clone(stored)
		bad[i] ^= 0x10
		if _, err := plain.Open(bad, want); err == nil && !bytes.Equal(bad, stored) {
			// A bit of the header that says nothing about the bytes may differ.
			if got, _ := plain.Open(bad, want); !bytes.Equal(got, data) {
				t.Errorf("bit flipped in byte %d: other bytes", i)
			}
		}
	}
	for name, c := range map[string]workspace.Chunk{"fewer blocks": {Sum: want.Sum, Blocks: 1}, "more": {Sum: want.Sum, Blocks: 3}, "others": {Blocks: 2}} {
		if _, err := plain.Open(stored, c); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if _, err := plain.Open(plain.Pack(make([]byte, 64<<20)), want); err == nil {
		t.Error("a chunk that grows to 64 MiB was opened")
	}
}
