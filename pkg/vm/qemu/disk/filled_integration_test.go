//go:build integration

package disk_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
	"github.com/deskfork/deskfork/pkg/vm/qemu/qcow2"
)

// TestFilled: a disk begins with what a raw file has, or is the file that was filled
// for it, and neither when that is not what it should be.
func TestFilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	content := make([]byte, 4<<20)
	copy(content[3<<20:], "here")
	raw, filled := filepath.Join(dir, "raw"), filepath.Join(dir, "filled")
	err := os.WriteFile(raw, content, 0o600)
	f, cerr := os.Create(filled)
	if err := errors.Join(err, cerr); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := qcow2.Create(f, int64(len(content)), []vm.Extent{{Offset: 3 << 20, Length: 4}})
	if err == nil {
		_, err = d.WriteAt([]byte("here"), 3<<20)
	}
	if err != nil {
		t.Fatal(err)
	}
	tools := disk.Tools{QEMUImg: "qemu-img"}
	for name, bad := range map[string]vm.Disk{
		"raw of another size":    {SizeMiB: 5, Source: raw},
		"filled of another size": {SizeMiB: 5, Source: filled, Filled: true},
		"not filled":             {SizeMiB: 4, Source: raw, Filled: true},
		"not there":              {SizeMiB: 4, Source: raw + "x", Filled: true},
	} {
		if err := tools.Create(t.Context(), bad, filepath.Join(dir, "bad")); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for name, from := range map[string]vm.Disk{"raw": {SizeMiB: 4, Source: raw}, "filled": {SizeMiB: 4, Source: filled, Filled: true}} {
		path := filepath.Join(dir, name+".disk")
		if err := tools.Create(t.Context(), from, path); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back := path + ".raw"
		if out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-f", "qcow2", "-O", "raw", path, back).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		if _, err := os.Stat(from.Source); errors.Is(err, os.ErrNotExist) != from.Filled {
			t.Errorf("%s: its source: %v", name, err)
		}
	}
}
