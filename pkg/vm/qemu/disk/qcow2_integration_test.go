//go:build integration

package disk_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
)

func TestOverlayIsWhatQEMUReads(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int64{"odd": 10<<30 + 512, "small": 64 << 10, "large": 6 << 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path, backing := filepath.Join(dir, "o.qcow2"), filepath.Join(dir, "a base, with a comma")
			if out, err := exec.CommandContext(t.Context(), "qemu-img", "create", "-q", "-f", "raw", backing, "65536").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := disk.Overlay(path, backing, "raw", size); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "qemu-img", "info", "--output=json", path).Output()
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
			if out, err := exec.CommandContext(t.Context(), "qemu-img", "check", path).CombinedOutput(); err != nil || !strings.Contains(string(out), "No errors") {
				t.Errorf("check: %v: %s", err, out)
			}
		})
	}
}
