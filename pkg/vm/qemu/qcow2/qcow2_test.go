package qcow2_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
	"github.com/deskfork/deskfork/pkg/vm/qemu/qcow2"
)

const (
	mib     = 1 << 20
	cluster = 64 << 10
)

// file is a qcow2 file in memory, made of an empty overlay of ours.
type file struct{ b []byte }

func newFile(tb testing.TB, size int64, backing bool) *file {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "o.qcow2")
	if err := disk.Overlay(path, "/below", "qcow2", size); err != nil {
		tb.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	if !backing {
		clear(b[8:20])
	}
	return &file{b}
}

// set gives cluster n an entry of the second level, making that level at need.
func (f *file) set(n int64, entry uint64) {
	be := binary.BigEndian
	first := be.Uint64(f.b[40:]) + uint64(n/8192)*8
	at := be.Uint64(f.b[first:])
	if at == 0 {
		at = uint64(len(f.b))
		f.b = append(f.b, make([]byte, cluster)...)
		be.PutUint64(f.b[first:], at)
	}
	be.PutUint64(f.b[at+uint64(n%8192)*8:], entry)
}

func (f *file) write(n int64, p []byte) {
	at := uint64(len(f.b))
	f.b = append(f.b, make([]byte, cluster)...)
	copy(f.b[at:], p)
	f.set(n, at|1<<63)
}

func (f *file) image(tb testing.TB) *qcow2.Image {
	tb.Helper()
	m, err := qcow2.Open(bytes.NewReader(f.b))
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// extents takes offsets and lengths in turn.
func extents(pairs ...int64) (out []vm.Extent) {
	for p := range slices.Chunk(pairs, 2) {
		out = append(out, vm.Extent{Offset: p[0], Length: p[1]})
	}
	return out
}

func TestChain(t *testing.T) {
	t.Parallel()
	size := int64(1024*mib + 4096) // two second-level tables and a bit
	low, top := newFile(t, 1024*mib, false), newFile(t, size, true)
	low.write(1, []byte("low 1"))
	low.write(2, []byte("low 2"))
	low.write(8192, []byte("low 8192"))
	top.write(2, []byte("top 2"))
	top.write(16384, []byte("the end"))
	top.set(8192, 1) // zero
	c := qcow2.Chain{top.image(t), low.image(t)}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for n, text := range map[int64]string{0: "", 1: "low 1", 2: "top 2", 3: "", 8191: "", 8192: "", 8193: "", 16384: "the end"} {
		got, want := make([]byte, 4096), make([]byte, 4096)
		copy(want, text)
		if _, err := c.ReadAt(got, n*cluster); err != nil || !bytes.Equal(got, want) {
			t.Errorf("cluster %d: %.20q, %v; want %q", n, got, err, text)
		}
	}
	across := make([]byte, 2*cluster)
	if _, err := c.ReadAt(across, cluster+1); err != nil || string(across[:4]) != "ow 1" || string(across[cluster-1:cluster+4]) != "top 2" {
		t.Errorf("read across clusters: %v", err)
	}
	p := make([]byte, 10)
	if n, err := c.ReadAt(p, size-4); n != 4 || !errors.Is(err, io.EOF) {
		t.Errorf("read over the end: %d, %v", n, err)
	}
	if _, err := c.ReadAt(p, -1); err == nil {
		t.Error("read before the beginning")
	}
	above, err := c[:1].Allocated(t.Context())
	if want := extents(2*cluster, cluster, 8192*cluster, cluster, 16384*cluster, 4096); err != nil || !slices.Equal(above, want) {
		t.Errorf("above the low one: %v, %v; want %v", above, err, want)
	}
	all, err := c.Allocated(t.Context())
	if want := extents(cluster, 2*cluster, 8192*cluster, cluster, 16384*cluster, 4096); err != nil || !slices.Equal(all, want) {
		t.Errorf("all: %v, %v; want %v", all, err, want)
	}
	for name, bad := range map[string]qcow2.Chain{"none": {}, "top alone": c[:1], "turned": {c[1], c[0]}} {
		if bad.Validate() == nil {
			t.Errorf("%s: a chain", name)
		}
	}
}

// TestOpenRefuses: what would have QEMU read otherwise than we do is refused.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*file){
		"magic":         func(f *file) { f.b[0] = 0 },
		"version":       func(f *file) { f.b[7] = 4 },
		"other file":    func(f *file) { f.b[79] |= 4 },
		"corrupt":       func(f *file) { f.b[79] |= 2 },
		"subclusters":   func(f *file) { f.b[79] |= 16 },
		"encrypted":     func(f *file) { f.b[35] = 1 },
		"no size":       func(f *file) { clear(f.b[24:32]) },
		"huge":          func(f *file) { f.b[24] = 1 },
		"cluster bits":  func(f *file) { f.b[23] = 30 },
		"small table":   func(f *file) { f.b[39] = 1 },
		"table outside": func(f *file) { f.b[40] = 0x7f },
		"table odd":     func(f *file) { f.b[47] = 1 },
		"short":         func(f *file) { f.b = f.b[:80] },
	} {
		f := newFile(t, 1024*mib, false)
		change(f)
		if _, err := qcow2.Open(bytes.NewReader(f.b)); !errors.Is(err, qcow2.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := newFile(t, mib, false)
	f.set(0, 1<<62|4096)
	c := qcow2.Chain{f.image(t)}
	if _, err := c.ReadAt(make([]byte, 1), 0); !errors.Is(err, qcow2.ErrFormat) {
		t.Errorf("read a compressed cluster: %v", err)
	}
	if _, err := c.Allocated(t.Context()); !errors.Is(err, qcow2.ErrFormat) {
		t.Errorf("list a compressed cluster: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	a := newFile(f, 4*mib, false)
	a.write(3, []byte("x"))
	a.set(5, 1)
	f.Add(a.b)
	f.Add(newFile(f, 1024*mib, true).b)
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := qcow2.Open(bytes.NewReader(b))
		if err != nil || m.Bytes() > 1<<30 {
			return
		}
		c := qcow2.Chain{m}
		_, _ = c.ReadAt(make([]byte, 1<<20), m.Bytes()/2)
		all, err := c.Allocated(t.Context())
		end := int64(0)
		for _, e := range all {
			if err != nil || e.Offset < end || e.Length <= 0 || e.Offset+e.Length > m.Bytes() {
				t.Fatalf("extents %v of %d bytes, %v", all, m.Bytes(), err)
			}
			end = e.Offset + e.Length + 1
		}
	})
}
