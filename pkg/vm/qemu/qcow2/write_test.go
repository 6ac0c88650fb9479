package qcow2_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/qcow2"
)

// create makes a disk in a file of the test's.
func create(tb testing.TB, size int64, holds []vm.Extent) (*qcow2.Disk, *os.File) {
	tb.Helper()
	f, err := os.OpenFile(filepath.Join(tb.TempDir(), "new.qcow2"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	d, err := qcow2.Create(f, size, holds)
	if err != nil {
		tb.Fatal(err)
	}
	return d, f
}

// scattered is what a disk of some size may hold, with its bytes.
func scattered(seed uint64, size int64) (holds []vm.Extent, want []byte) {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	want = make([]byte, size)
	for at := rng.Int64N(3 * mib); at < size; {
		n := min(1+rng.Int64N(300_000), size-at)
		for i := range want[at : at+n] {
			want[at+int64(i)] = byte(rng.Uint32())
		}
		holds = append(holds, vm.Extent{Offset: at, Length: n})
		at += n
		if rng.IntN(4) > 0 {
			at += rng.Int64N(2 * mib)
		}
	}
	return holds, want
}

// put writes what is held in pieces, in any order.
func put(tb testing.TB, d *qcow2.Disk, holds []vm.Extent, want []byte) {
	tb.Helper()
	for _, i := range rand.Perm(len(holds)) {
		e := holds[i]
		for _, part := range [][2]int64{{e.Length / 3, e.Length}, {0, e.Length / 3}} {
			p := want[e.Offset+part[0] : e.Offset+part[1]]
			if n, err := d.WriteAt(p, e.Offset+part[0]); err != nil || n != len(p) {
				tb.Fatalf("write %d bytes at %d: %d, %v", len(p), e.Offset, n, err)
			}
		}
	}
}

func TestCreate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		size := int64(20+seed)*mib + int64(seed)*512
		holds, want := scattered(seed, size)
		d, f := create(t, size, holds)
		put(t, d, holds, want)
		m, err := qcow2.Open(f)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, size)
		if _, err := (qcow2.Chain{m}).ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
			t.Errorf("seed %d: read back: %v, equal %v", seed, err, bytes.Equal(got, want))
		}
	}
}

// TestCreateIsThrifty: a disk takes no more than what it holds, whatever its size.
func TestCreateIsThrifty(t *testing.T) {
	t.Parallel()
	holds := extents(0, 4096, 3<<40, 100_000, 3<<40+200_000, 4096)
	d, f := create(t, 4<<40, holds)
	if _, err := d.WriteAt([]byte("here"), 3<<40+200_000); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() > 2*mib {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	m, err := qcow2.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := (qcow2.Chain{m}).Allocated(t.Context())
	if diff := cmp.Diff(extents(0, 65536, 3<<40, 2*65536, 3<<40+3*65536, 65536), all); err != nil || diff != "" {
		t.Errorf("allocated %v: %s", err, diff)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		size  int64
		holds []vm.Extent
	}{
		"no size":    {size: 0},
		"too large":  {size: 1 << 50},
		"behind end": {mib, extents(0, mib+1)},
		"overlap":    {mib, extents(0, 10, 9, 10)},
		"unsorted":   {mib, extents(100, 10, 0, 10)},
		"nothing":    {mib, extents(100, 0)},
		"before it":  {mib, extents(-1, 10)},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "d"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := qcow2.Create(f, tt.size, tt.holds); err == nil {
			t.Errorf("%s: no error", name)
		}
		_ = f.Close()
	}
	d, _ := create(t, mib, extents(0, 1, 3*65536, 65536))
	for _, off := range []int64{-1, 65536, 2 * 65536, 4 * 65536, mib, 2 * mib} {
		if n, err := d.WriteAt([]byte("x"), off); err == nil || n != 0 {
			t.Errorf("write at %d: %d, %v", off, n, err)
		}
	}
	if n, err := d.WriteAt(make([]byte, 2*65536), 3*65536); err == nil || n != 65536 {
		t.Errorf("a write that goes too far: %d, %v", n, err)
	}
}
