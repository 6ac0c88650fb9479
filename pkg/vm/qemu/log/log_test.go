package log_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm/qemu/log"
)

func TestForeign(t *testing.T) {
	t.Parallel()
	const stamp = "2026-01-01T00:00:00.000000Z qemu-system-x86_64: "
	for name, tt := range map[string]struct{ text, want string }{
		"silence":               {"", ""},
		"an empty line":         {"\n", ""},
		"no vmdescription":      {stamp + "Expected vmdescription section, but got 0\n", ""},
		"a feature":             {stamp + "warning: TCG doesn't support requested feature: CPUID.01H:EDX.vme [bit 1]\n", ""},
		"a ring":                {stamp + "VQ 0 size 0x40 Guest index 0xa0 inconsistent with Host index 0xaa: delta 0xfff6\n", stamp + "VQ 0 size 0x40 Guest index 0xa0 inconsistent with Host index 0xaa: delta 0xfff6"},
		"a ring dressed up":     {"warning: TCG doesn't support requested feature: inconsistent\n", "warning: TCG doesn't support requested feature: inconsistent"},
		"something new, at end": {stamp + "Expected vmdescription section, but got 0\nboo", "boo"},
		"another vmdescription": {stamp + "Expected vmdescription section, but got 05\n", stamp + "Expected vmdescription section, but got 05"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := log.Foreign(path)
			if err != nil || got != tt.want {
				t.Errorf("Foreign = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	if _, err := log.Foreign(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a log that is not there counts as silent")
	}
}
