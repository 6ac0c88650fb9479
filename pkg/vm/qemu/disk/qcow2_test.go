package disk_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
)

func TestOverlayRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, backing := range []string{"", "/" + strings.Repeat("x", 1023)} {
		if err := disk.Overlay(filepath.Join(dir, "o"), backing, "raw", 1<<20); err == nil {
			t.Errorf("a name of %d bytes was taken", len(backing))
		}
	}
}

func FuzzInspect(f *testing.F) {
	good := filepath.Join(f.TempDir(), "o.qcow2")
	if err := disk.Overlay(good, "/base", "raw", 1<<30); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(good)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:104])
	f.Add([]byte("QFI\xfb"))
	path := filepath.Join(f.TempDir(), "any")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err := disk.Inspect(path); err == nil && (h.Bytes <= 0 || len(b) < 104) {
			t.Errorf("took %d bytes for a disk of %d", len(b), h.Bytes)
		}
	})
}

// TestInspectRefusesOtherFiles: a header may not make QEMU open what it names.
func TestInspectRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "o.qcow2")
	if err := disk.Overlay(path, "/base", "raw", 1<<30); err != nil {
		t.Fatal(err)
	}
	if h, err := disk.Inspect(path); err != nil || h.Bytes != 1<<30 || !h.Backing {
		t.Fatalf("Inspect = %+v, %v", h, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, at := range map[string]int{"external data": 79, "encryption": 35, "magic": 0, "version": 7} {
		bad := slices.Clone(b)
		bad[at] ^= 4
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err := disk.Inspect(path); err == nil {
			t.Errorf("%s: Inspect = %+v", name, h)
		}
	}
}
