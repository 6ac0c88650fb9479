package disk_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
)

func TestOverlayIsWhatQEMUReads(t *testing.T) {
	t.Parallel()
	img, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("qemu-img is not installed (make test installs it)")
	}
	for name, size := range map[string]int64{"odd": 10<<30 + 512, "small": 64 << 10, "large": 6 << 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, backing := filepath.Join(dir, "o.qcow2"), filepath.Join(dir, "a base, with a comma")
			if out, err := exec.CommandContext(t.Context(), img, "create", "-q", "-f", "raw", backing, "65536").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := disk.Overlay(path, backing, "raw", size); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), img, "info", "--output=json", path).Output()
			if err != nil {
				t.Fatal(err)
			}
			var info struct {
				Size    int64  `json:"virtual-size"`
				Backing string `json:"backing-filename"`
				Format  string `json:"backing-filename-format"`
			}
			if err := json.Unmarshal(out, &info); err != nil {
				t.Fatal(err)
			}
			if info.Size != size || info.Backing != backing || info.Format != "raw" {
				t.Errorf("qemu-img reads %+v", info)
			}
			if out, err := exec.CommandContext(t.Context(), img, "check", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "No errors") {
				t.Errorf("check: %v: %s", err, out)
			}
		})
	}
}

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
