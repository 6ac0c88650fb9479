package atomicfile_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
)

func TestWriteReplaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, want := range []string{"first, the longer one", "second"} {
		if err := atomicfile.Write(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Fatalf("read back %q, %v; want %q", got, err, want)
		}
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode() != fs.FileMode(0o600) {
		t.Fatalf("mode %v, %v; want 0600", st.Mode(), err)
	}
	assertEntries(t, dir, 1)
}

func TestWriteFailureLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "d")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	// A file cannot be renamed over a directory.
	if err := atomicfile.Write(path, []byte("x"), 0o600); err == nil {
		t.Fatal("Write over a directory succeeded")
	}
	assertEntries(t, dir, 1)
}

func assertEntries(t *testing.T, dir string, want int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != want {
		t.Fatalf("%d entries, %v; want %d: %v", len(entries), err, want, entries)
	}
}
