//go:build integration

package qemu_test

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
)

var imageDir = flag.String("image", "", "directory of a guest image: boot it too")

// imageSpec reads the manifest of an image directory.
func imageSpec(t *testing.T, dir string) vm.Spec {
	t.Helper()
	var m struct {
		Boot struct{ Cmdline string }
	}
	b, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &m); err != nil || m.Boot.Cmdline == "" {
		t.Fatalf("manifest of %s: %v %+v", dir, err, m)
	}
	shape, _ := vm.ShapeNamed("medium")
	return vm.Spec{
		ID: "image", Incarnation: "i1", Shape: shape,
		Boot: vm.Boot{
			Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd.img"), Cmdline: m.Boot.Cmdline,
		},
		System:    vm.Disk{Base: filepath.Join(dir, "system.img"), BaseFormat: "raw"},
		Workspace: vm.Disk{SizeMiB: 1024, Label: "workspace"},
		Width:     1280, Height: 800, Network: vm.NetworkOpen,
		GuestConfig: []byte(`{"token":"t"}`),
	}
}

// TestImageBoots boots a real guest and presses its power button.
func TestImageBoots(t *testing.T) {
	if *imageDir == "" {
		t.Skip("no -image")
	}
	p, err := qemu.New(qemu.Config{DataDir: t.TempDir(), RuntimeDir: shortDir(t), Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	began := time.Now()
	m, err := p.Create(t.Context(), imageSpec(t, *imageDir))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("created in %v", time.Since(began))
	conn, err := m.DialDisplay(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	banner := make([]byte, 12)
	if _, err := io.ReadFull(conn, banner); err != nil || string(banner) != "RFB 003.008\n" {
		t.Fatalf("display says %q, %v", banner, err)
	}
	conn.Close()
	t.Cleanup(func() {
		if err := m.Destroy(context.Background()); err != nil {
			t.Error(err)
		}
	})
	eventually(t, 4*time.Minute, func() bool { return m.Info().MemoryBytes > 400<<20 })
	t.Logf("guest is up after %v: %+v", time.Since(began), m.Info())
	const grace = 2 * time.Minute
	asked := time.Now()
	if err := m.Stop(t.Context(), grace); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(asked); took > grace || m.Err() != nil {
		t.Errorf("guest did not obey the power button: ended after %v with %v", took, m.Err())
	}
	t.Logf("guest powered off in %v", time.Since(asked))
}

// eventually polls a condition of another process, which tells nobody.
func eventually(t *testing.T, limit time.Duration, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(limit)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("nothing within %v", limit)
		}
	}
}
