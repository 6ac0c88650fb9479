//go:build linux

package pages_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

// TestRoundTrip changes memory at random, together with a model of it, carries
// the changes over to a second process and into a whole file, from the file just
// filled and from one that was opened again, and compares everything.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 3))
			size := int64(64+r.IntN(2000)) * page
			path, model := template(t, t.TempDir(), size)
			base, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer base.Close()
			p := start(t, path)
			n := int(size / page)
			for range 1 + r.IntN(60) {
				from := r.IntN(n)
				verb := []string{"fill", "fill", "zero", "same", "last", "look"}[r.IntN(6)]
				line := fmt.Sprintf("%s %d %d %d", verb, from, 1+r.IntN(min(n-from, 1<<r.IntN(9))), r.IntN(2)*r.IntN(256))
				if strings.HasPrefix(line, "same") {
					line = line[:strings.LastIndexByte(line, ' ')] + " 0"
				}
				p.tell(line)
				if err := act(model, line); err != nil {
					t.Fatal(err)
				}
			}
			roundTrip(t, r, p, base, model)
		})
	}
}

func roundTrip(t *testing.T, r *rand.Rand, p *process, base *os.File, model []byte) {
	t.Helper()
	f, path := create(t, p.region.Size)
	found := p.changed()
	if err := f.Reserve([]int64{0, 1, pages.Total(found) / 2, pages.Total(found), 1 << 40}[r.IntN(5)]); err != nil {
		t.Fatal(err)
	}
	stats, err := pages.Copy(t.Context(), p.pid, p.region, found, f)
	if err != nil {
		t.Fatal(err)
	}
	holds(t, f, found, model)
	if stats.Data != f.Bytes() || stats.Zero != pages.Total(f.Zeros()) || stats.Data+stats.Zero != pages.Total(found) {
		t.Errorf("Stats = %+v; file has %d and %d of %d", stats, f.Bytes(), pages.Total(f.Zeros()), pages.Total(found))
	}
	arrives(t, f, base, model)
	if r.IntN(2) == 0 {
		if err := f.DropZeros(base); err != nil {
			t.Fatal(err)
		}
		arrives(t, f, base, model)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	arrives(t, f, base, model)
	again := opened(t, path)
	if !slices.Equal(again.Runs(), f.Runs()) || !slices.Equal(again.Zeros(), f.Zeros()) || again.Bytes() != f.Bytes() || again.RegionSize() != p.region.Size {
		t.Errorf("opened again: %v %v %d; was %v %v %d", again.Runs(), again.Zeros(), again.Bytes(), f.Runs(), f.Zeros(), f.Bytes())
	}
	arrives(t, again, base, model)
}

// holds checks that each run of found is in f, by the model as zeros or as data.
func holds(t *testing.T, f *pages.File, found []pages.Run, model []byte) {
	t.Helper()
	var data, zeros []pages.Run
	for _, r := range found {
		for off := r.Off; off < r.Off+r.Len; off += page {
			list := &data
			if slices.Max(model[off:off+page]) == 0 {
				list = &zeros
			}
			*list = pages.Merge(*list, []pages.Run{{Off: off, Len: page}})
		}
	}
	if !slices.Equal(f.Runs(), data) || !slices.Equal(f.Zeros(), zeros) {
		t.Errorf("file holds %v and zeros %v; want %v and %v", f.Runs(), f.Zeros(), data, zeros)
	}
}

// arrives applies f to a fresh process and makes a file of it.
func arrives(t *testing.T, f *pages.File, base *os.File, model []byte) {
	t.Helper()
	want := hash(model)
	fresh := start(t, base.Name())
	if err := f.Apply(t.Context(), fresh.pid, fresh.region); err != nil {
		t.Fatal(err)
	}
	if got := fresh.tell("hash"); got != want {
		t.Errorf("process has %s, want %s", got, want)
	}
	whole := filepath.Join(t.TempDir(), "whole")
	if err := f.Materialize(t.Context(), base, whole); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(whole)
	if err != nil || hash(b) != want {
		t.Errorf("file of %d bytes has %s, %v; want %d with %s", len(b), hash(b), err, len(model), want)
	}
}

// TestMaterializeLeavesHoles: neither zeros of the base's nor of the process's
// take room; without a base there is nothing but the pages.
func TestMaterializeLeavesHoles(t *testing.T) {
	t.Parallel()
	const size = 16 << 20
	path := blank(t, t.TempDir(), size)
	whole := make([]byte, size) // a template without holes
	if err := act(whole, "fill 0 1024 1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole[:size-100], 0o600); err != nil { // and one that ends within a page
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	p := start(t, path)
	p.tell("zero 0 512 0")
	p.tell("fill 2048 16 5")
	f, _ := create(t, size)
	if _, err := pages.Copy(t.Context(), p.pid, p.region, p.changed(), f); err != nil {
		t.Fatal(err)
	}
	base, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	for name, tc := range map[string]struct {
		base  *os.File
		pages int64
	}{"over a base": {base, 512 + 16}, "over nothing": {nil, 16}} {
		out := filepath.Join(t.TempDir(), "out")
		if err := f.Materialize(t.Context(), tc.base, out); err != nil {
			t.Fatal(err)
		}
		if got := room(t, out); got > tc.pages*page+64<<10 {
			t.Errorf("%s: takes %d bytes, want about %d", name, got, tc.pages*page)
		}
		if err := f.Materialize(t.Context(), tc.base, out); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: over a file: %v", name, err)
		}
	}
	if err := os.Truncate(path, 2*size); err != nil {
		t.Fatal(err)
	}
	if err := f.Materialize(t.Context(), base, filepath.Join(t.TempDir(), "out")); err == nil {
		t.Error("took a base larger than the region")
	}
}

// TestParallelWriters copies while the process writes: what arrives is of no one
// instant, but nothing fails; a copy afterwards is exact.
func TestParallelWriters(t *testing.T) {
	t.Parallel()
	path, _ := template(t, t.TempDir(), 8<<20)
	p := start(t, path)
	p.tell("storm")
	for range 5 {
		f, _ := create(t, p.region.Size)
		if _, err := pages.Copy(t.Context(), p.pid, p.region, p.changed(), f); err != nil {
			t.Fatal(err)
		}
	}
	p.tell("calm")
	f, _ := create(t, p.region.Size)
	if _, err := pages.Copy(t.Context(), p.pid, p.region, p.changed(), f); err != nil {
		t.Fatal(err)
	}
	fresh := start(t, path)
	if err := f.Apply(t.Context(), fresh.pid, fresh.region); err != nil {
		t.Fatal(err)
	}
	if got, want := fresh.tell("hash"), p.tell("hash"); got != want {
		t.Errorf("process has %s, want %s", got, want)
	}
}

// TestEndsMidway ends the process, and then the context, when the first bytes
// of a copy have arrived. The same file takes another copy afterwards.
func TestEndsMidway(t *testing.T) {
	t.Parallel()
	const size = 128 << 20
	path := blank(t, t.TempDir(), size)
	for name, tc := range map[string]struct {
		want error
		end  func(*process, context.CancelFunc)
	}{
		"process": {vm.ErrGone, func(p *process, _ context.CancelFunc) { p.kill() }},
		"context": {context.Canceled, func(_ *process, cancel context.CancelFunc) { cancel() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for try := 1; ; try++ {
				p := start(t, path)
				p.tell(fmt.Sprintf("fill 0 %d 1", size/page))
				f, out := create(t, size)
				err := copyUntil(t, p, f, out, tc.end)
				if err == nil && try < 10 { // the copy was faster
					continue
				}
				if !errors.Is(err, tc.want) {
					t.Errorf("try %d: Copy = %v, want %v", try, err, tc.want)
				}
				if len(f.Runs()) > 0 {
					t.Errorf("holds %v", f.Runs())
				}
				other := start(t, path)
				other.tell("fill 3 1 1")
				if _, err := pages.Copy(t.Context(), other.pid, other.region, other.changed(), f); err != nil || f.Bytes() != page {
					t.Errorf("copy afterwards: %d bytes, %v", f.Bytes(), err)
				}
				return
			}
		})
	}
}

// copyUntil calls end when data has arrived in the file at path.
func copyUntil(t *testing.T, p *process, f *pages.File, path string, end func(*process, context.CancelFunc)) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	found := p.changed()
	done := make(chan error, 1)
	go func() {
		_, err := pages.Copy(ctx, p.pid, p.region, found, f)
		done <- err
	}()
	for b := []byte{0}; b[0] == 0; {
		if _, err := file.ReadAt(b, pages.DataAt+1000); err != nil {
			t.Error(err)
			break
		}
		if len(done) > 0 {
			break
		}
	}
	end(p, cancel)
	return <-done
}
