//go:build integration

package qemu_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// powerOffWithin is how long the real image may take to end by its power
// button, under emulation and beside other machines.
const powerOffWithin = 90 * time.Second

// TestPowerOffADesktop: the real image ends by itself when its power button is
// pressed, with services stopped and disks written; and until the handshake
// nobody but the kernel, once, has read its second disk.
func TestPowerOffADesktop(t *testing.T) {
	e, spec := desktopEnv(t)
	p := e.provider(t)
	m, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, m)
	c := agent(t, m)
	sh(t, c, "while [ \"$(systemctl is-system-running)\" = starting ]; do sleep 1; done; udevadm settle")
	// Reads, merged, sectors: the kernel's look for partitions.
	if got := strings.Fields(sh(t, c, "cat /sys/block/vdb/stat")); got[0] != "3" || got[2] != "24" || got[4] != "0" {
		t.Errorf("before the handshake /dev/vdb was read: %v", got)
	}
	done, err := c.Handshake(t.Context(), guest.Handshake{
		Now: time.Now(), Entropy: bytes.Repeat([]byte{1}, 32), Generation: "i1",
		Workspace: "/dev/vdb", WorkspaceBytes: spec.Workspace.SizeMiB << 20,
	})
	if err != nil || done.Workspace != "/dev/vdb" || done.ClockError() > 50*time.Millisecond {
		t.Fatalf("handshake: %+v, clock off by at most %v, %v", done, done.ClockError(), err)
	}
	sh(t, c, "echo written > /workspace/mark")
	began := time.Now()
	if err := m.Stop(t.Context(), powerOffWithin); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("off after %v", took)
	serial, err := os.ReadFile(filepath.Join(m.Info().Dir, "serial.log"))
	if err != nil {
		t.Fatal(err)
	}
	if took >= powerOffWithin || !strings.Contains(string(serial), "reboot: Power down") {
		t.Errorf("not off by itself after %v; the console ends with %q", took, serial[max(0, len(serial)-300):])
	}
}
