package cgroup_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/cgroup"
)

func TestProbeSaysWhyNot(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ root, want string }{
		"not configured": {"", "no cgroup directory"},
		"no cgroup fs":   {filepath.Join(t.TempDir(), "x"), "not on a cgroup v2"},
		"missing parent": {"/nonexistent/a/b", "/nonexistent/a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := cgroup.Probe(tc.root); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Probe(%q) = %v, want it to say %q", tc.root, err, tc.want)
			}
		})
	}
}

// TestLimitsAndRemoval uses a plain directory as the hierarchy: what is written
// where, and that directories go.
func TestLimitsAndRemoval(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	f, err := cgroup.Make(root, "i1", vm.Shape{VCPUs: 2, MemoryMiB: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]string{"memory.max": "2684354560", "cpu.max": "250000 100000", "pids.max": "256"} {
		path := filepath.Join(root, "i1", name)
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s = %q, %v; want %q", name, got, err, want)
		}
		if err := os.Remove(path); err != nil { // in a real hierarchy they go with the directory
			t.Fatal(err)
		}
	}
	for _, stray := range []string{"i2", "i3"} {
		if err := os.Mkdir(filepath.Join(root, stray), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := cgroup.RemoveStrays(t.Context(), root, map[string]bool{"i1": true, "i3": true}); err != nil {
		t.Fatal(err)
	}
	if err := cgroup.Remove(t.Context(), root, "i1"); err != nil {
		t.Fatal(err)
	}
	if err := cgroup.Remove(t.Context(), root, "i1"); err != nil {
		t.Errorf("second Remove: %v", err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 || entries[0].Name() != "i3" {
		t.Errorf("left: %v, %v; want i3 alone", entries, err)
	}
}
