//go:build linux

package pages_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

// assemble makes a file with right checksums of whatever x says.
func assemble(x pages.Index, data int64) []byte {
	header, table := pages.Encode(x)
	b := make([]byte, pages.DataAt+data)
	copy(b, header)
	return append(b, table...)
}

// TestParseBelievesNothing: checksums are right, what they cover is not.
func TestParseBelievesNothing(t *testing.T) {
	t.Parallel()
	good := pages.Index{Region: 8 * page, Bytes: 2 * page, Runs: runs(0, 1, 4, 1), Zeros: runs(1, 3)}
	for name, tc := range map[string]struct {
		change func(*pages.Index)
		ok     bool
	}{
		"good":               {func(*pages.Index) {}, true},
		"no region":          {func(x *pages.Index) { x.Region = 0 }, false},
		"negative region":    {func(x *pages.Index) { x.Region = -page }, false},
		"huge region":        {func(x *pages.Index) { x.Region = 1 << 62 }, false},
		"half a page":        {func(x *pages.Index) { x.Region += 100 }, false},
		"too small a region": {func(x *pages.Index) { x.Region = 4 * page }, false},
		"other amount":       {func(x *pages.Index) { x.Runs = runs(0, 1, 4, 2) }, false},
		"out of order":       {func(x *pages.Index) { x.Runs = runs(4, 1, 0, 1) }, false},
		"twice":              {func(x *pages.Index) { x.Runs = runs(4, 1, 4, 1) }, false},
		"overflow":           {func(x *pages.Index) { x.Runs[1] = pages.Run{Off: 1 << 62, Len: 1 << 62} }, false},
		"negative":           {func(x *pages.Index) { x.Runs[0].Off = -page }, false},
		"negative length":    {func(x *pages.Index) { x.Runs = runs(0, 3, 4, -1) }, false},
		"empty run":          {func(x *pages.Index) { x.Runs = runs(0, 2, 4, 0) }, false},
		"unaligned":          {func(x *pages.Index) { x.Runs[1].Off += 8 }, false},
		"zero and not":       {func(x *pages.Index) { x.Zeros = runs(3, 2) }, false},
		"zeros outside":      {func(x *pages.Index) { x.Zeros = runs(7, 2) }, false},
		"negative amount":    {func(x *pages.Index) { x.Bytes = -page }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := good
			x.Runs, x.Zeros = slices.Clone(x.Runs), slices.Clone(x.Zeros)
			tc.change(&x)
			b := assemble(x, 2*page)
			got, err := pages.Parse(bytes.NewReader(b), int64(len(b)))
			if tc.ok && (err != nil || !reflect.DeepEqual(got, x)) {
				t.Errorf("= %+v, %v; want %+v", got, err, x)
			}
			if !tc.ok && !errors.Is(err, vm.ErrCorrupt) {
				t.Errorf("= %+v, %v", got, err)
			}
		})
	}
}

// FuzzParse: an index that is returned is in order, and the file has its data.
func FuzzParse(f *testing.F) {
	f.Add([]byte{}, []byte{}, uint16(0))
	for _, x := range []pages.Index{
		{Region: 8 * page, Bytes: 2 * page, Runs: runs(0, 1, 4, 1), Zeros: runs(1, 3)},
		{Region: 1 << 40, Bytes: 0, Zeros: runs(0, 1<<20)},
		{Region: 1 << 40, Bytes: 1 << 62, Runs: []pages.Run{{Off: 1 << 62, Len: 1 << 62}}},
	} {
		header, table := pages.Encode(x)
		f.Add(header, table, uint16(x.Bytes/page))
	}
	f.Fuzz(func(t *testing.T, header, table []byte, data uint16) {
		b := make([]byte, pages.DataAt+int(data)*page)
		copy(b, header)
		b = append(b, table...)
		try(t, b)
		try(t, header)
		// Once more behind the checksums: the numbers of the header as they are.
		if len(header) >= 48 && len(table)%16 == 0 {
			n := min(len(table)/16, int(header[32]))
			x := pages.Index{Region: int64(le(header[16:])), Bytes: int64(le(header[24:])), Runs: entries(table[:n*16]), Zeros: entries(table[n*16:])}
			try(t, assemble(x, int64(data)*page))
		}
	})
}

func le(b []byte) (n uint64) {
	for i := range 8 {
		n |= uint64(b[i]) << (8 * i)
	}
	return n
}

func entries(b []byte) []pages.Run {
	var out []pages.Run
	for ; len(b) >= 16; b = b[16:] {
		out = append(out, pages.Run{Off: int64(le(b)), Len: int64(le(b[8:]))})
	}
	return out
}

func try(t *testing.T, b []byte) {
	t.Helper()
	x, err := pages.Parse(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		if !errors.Is(err, vm.ErrCorrupt) {
			t.Errorf("error is no vm.ErrCorrupt: %v", err)
		}
		return
	}
	end, seen := int64(0), int64(0)
	for _, r := range pages.Merge(x.Runs, x.Zeros) {
		if r.Off < end || r.Len <= 0 || r.Off+r.Len > x.Region || (r.Off|r.Len)%page != 0 {
			t.Fatalf("%+v after %d in %+v", r, end, x)
		}
		end, seen = r.Off+r.Len, seen+r.Len
	}
	if seen != pages.Total(x.Runs)+pages.Total(x.Zeros) || pages.Total(x.Runs) != x.Bytes || pages.DataAt+x.Bytes > int64(len(b)) {
		t.Fatalf("%d bytes in %+v of a file of %d", seen, x, len(b))
	}
}

// TestRunsAgainstModel holds the arithmetic of runs against sets of pages.
func TestRunsAgainstModel(t *testing.T) {
	t.Parallel()
	const n = 40
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 4))
		var a, b, minus, either []pages.Run
		for i := range int64(n) {
			one := runs(i, 1)
			inA, inB := r.IntN(3) > 0, r.IntN(3) == 0
			if inA {
				a = pages.Merge(a, one)
			}
			if inB {
				b = pages.Merge(b, one)
			}
			if inA && !inB {
				minus = pages.Merge(minus, one)
			}
			if inA != inB {
				either = pages.Merge(either, one)
			}
		}
		if got := pages.Subtract(a, b); !slices.Equal(got, minus) {
			t.Fatalf("seed %d: %v - %v = %v, want %v", seed, a, b, got, minus)
		}
		if got := pages.Merge(pages.Subtract(a, b), pages.Subtract(b, a)); !slices.Equal(got, either) {
			t.Fatalf("seed %d: %v xor %v = %v, want %v", seed, a, b, got, either)
		}
	}
}

// TestRest: a call that did only a part goes on where it stopped.
func TestRest(t *testing.T) {
	t.Parallel()
	all := runs(0, 2, 5, 1)
	for _, tc := range []struct {
		done int64
		left []pages.Run
		at   int64
	}{
		{0, all, 0},
		{100, []pages.Run{{Off: 100, Len: 2*page - 100}, all[1]}, 100},
		{2 * page, all[1:], 2 * page},
		{2*page + 7, []pages.Run{{Off: 5*page + 7, Len: page - 7}}, 2*page + 7},
		{3 * page, nil, 0},
	} {
		if left, at := pages.Rest(all, tc.done); !slices.Equal(left, tc.left) || at != tc.at {
			t.Errorf("after %d: %v at %d, want %v at %d", tc.done, left, at, tc.left, tc.at)
		}
	}
	if !slices.Equal(all, runs(0, 2, 5, 1)) {
		t.Error("the list itself was changed")
	}
}
