package checkpoint_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/deskfork/deskfork/pkg/blob/dir"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
)

// A disk of 256 MiB, three quarters full of bytes that do not compress.
func benchDisk() *disk {
	d := newDisk(65536, 9)
	d.write(0, 49152)
	return d
}

func benchStore(b *testing.B) (*checkpoint.Store, *meter) {
	b.Helper()
	objects, err := dir.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = objects.Close() })
	m := &meter{Objects: objects}
	return &checkpoint.Store{Objects: m}, m
}

func BenchmarkFull(b *testing.B) {
	d := benchDisk()
	s, _ := benchStore(b)
	b.SetBytes(int64(len(d.data)))
	n := 0
	for b.Loop() {
		if _, err := s.Write(b.Context(), d.request(workspace.CheckpointID(fmt.Sprintf("c%d", n)), nil)); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

// BenchmarkIncrement: 8 MiB appended, 500 blocks rewritten, clusters of 64 KiB
// compared with the parent's disk.
func BenchmarkIncrement(b *testing.B) {
	d := benchDisk()
	s, m := benchStore(b)
	parent, err := s.Write(b.Context(), d.request("c0", nil))
	if err != nil {
		b.Fatal(err)
	}
	base := bytes.NewReader(bytes.Clone(d.data))
	r := rand.New(rand.NewPCG(9, 9))
	d.write(49152, 2048)
	for _, at := range r.Perm(49152)[:500] {
		d.write(at, 1)
	}
	req := d.request("", parent)
	for i, e := range req.Changed {
		req.Changed[i] = workspace.Extent{Offset: e.Offset &^ 0xffff, Length: (e.Length + 0xffff) &^ 0xffff}
	}
	req.Base, m.put = base, 0
	n := 0
	for b.Loop() {
		n++
		req.Ref = ref(workspace.CheckpointID(fmt.Sprintf("d%d", n)))
		if _, err := s.Write(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(m.put)/float64(n)/(2548*block), "stored/changed")
}

func BenchmarkRestore(b *testing.B) {
	d := benchDisk()
	s, _ := benchStore(b)
	m, err := s.Write(b.Context(), d.request("c0", nil))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(m.Checkpoint().Stats.Used)
	for b.Loop() {
		if err := s.Restore(b.Context(), m, discard{}); err != nil {
			b.Fatal(err)
		}
	}
}
