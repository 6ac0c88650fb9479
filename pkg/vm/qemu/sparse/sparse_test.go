package sparse_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm/qemu/sparse"
)

func file(t *testing.T, size int64, at map[int64]string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for off, text := range at {
		if _, err := f.WriteAt([]byte(text), off); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func sum(t *testing.T, f *os.File) string {
	t.Helper()
	s, err := sparse.Sum(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	const b = sparse.Block
	f := file(t, 10*b+5, map[int64]string{3: "x", 4*b - 1: "yz", 7 * b: string(make([]byte, b)), 10*b + 4: "e"})
	var offs []int64
	last := 0
	err := sparse.Blocks(t.Context(), f, func(off int64, p []byte) error {
		offs, last = append(offs, off), len(p)
		return nil
	})
	if err != nil || !slices.Equal(offs, []int64{0, 3 * b, 4 * b, 10 * b}) || last != 5 {
		t.Errorf("blocks at %v, the last of %d bytes, %v", offs, last, err)
	}
}

// TestSumIgnoresHoles: written zeros and holes are the same to it, other things
// are not.
func TestSumIgnoresHoles(t *testing.T) {
	t.Parallel()
	const b = sparse.Block
	want := sum(t, file(t, 4*b, map[int64]string{b: "x"}))
	if got := sum(t, file(t, 4*b, map[int64]string{0: string(make([]byte, b)), b: "x", 3 * b: string(make([]byte, b))})); got != want {
		t.Error("zeros count")
	}
	for name, f := range map[string]*os.File{
		"longer":    file(t, 5*b, map[int64]string{b: "x"}),
		"elsewhere": file(t, 4*b, map[int64]string{2 * b: "x"}),
		"another":   file(t, 4*b, map[int64]string{b: "y"}),
	} {
		if sum(t, f) == want {
			t.Errorf("%s has the same sum", name)
		}
	}
}
