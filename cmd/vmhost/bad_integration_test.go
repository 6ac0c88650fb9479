//go:build integration

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/cli"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/image"
)

// daemon is `vmhost serve` in this process, until the test ends, with the real
// QEMU under it.
func daemon(t *testing.T, dataDir string, flags ...string) *client.Client {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var said, out strings.Builder // of the log, and of what people are told
	ended := make(chan int, 1)
	go func() {
		cfg := cli.Config{In: strings.NewReader(""), Out: &out, Err: &said, DataDir: dataDir, Serve: serveCmd}
		ended <- cli.Run(ctx, cfg, append([]string{"serve", "--listen", "127.0.0.1:0", "--runtime-dir", filepath.Join(dataDir, "run")}, flags...))
	}()
	t.Cleanup(func() {
		stop()
		if status := <-ended; status != 0 {
			t.Errorf("serve ended with %d:\n%s", status, &said)
		}
	})
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		address, err := os.ReadFile(filepath.Join(dataDir, cli.AddressName))
		if err == nil {
			c, err := client.New(strings.TrimSpace(string(address)), client.WithTokenFile(filepath.Join(dataDir, "token")))
			if err == nil && c.Healthy(ctx) == nil {
				return c
			}
		}
		select {
		case <-tick.C:
		case status := <-ended:
			ended <- status
			t.Fatal("the daemon did not start")
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
}

// halting is a kernel that QEMU's firmware starts (Multiboot 0.6.96, section 3.1),
// and that then does nothing.
func halting() string {
	const magic, flags, base = 0x1BADB002, 0x00010000, 0x100000
	var sum uint32
	sum -= magic + flags
	var b []byte
	for _, v := range []uint32{magic, flags, sum, base, base, 0, 0, base + 32} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return string(append(b, 0xf4, 0xeb, 0xfd)) // hlt; jmp -3
}

// shelve makes an image of a kernel and an empty disk.
func shelve(t *testing.T, dataDir, name, kernel string) (dir string) {
	t.Helper()
	store, err := image.Open(image.Config{Dir: filepath.Join(dataDir, imagesDir)})
	if err != nil {
		t.Fatal(err)
	}
	d, err := store.Draft()
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string]string{image.KernelFile: kernel, image.InitrdFile: "initrd", image.DiskFileRaw: ""} {
		if err := os.WriteFile(d.Path(file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(d.Path(image.DiskFileRaw), 9<<20); err != nil {
		t.Fatal(err)
	}
	m, err := d.Digest(t.Context(), image.Manifest{
		Version: image.ManifestVersion, Name: name, Tag: "latest", Created: time.Unix(1, 0).UTC(),
		Disk:  image.Disk{Format: image.FormatRaw},
		Boot:  image.Boot{Cmdline: "console=ttyS0", KernelVersion: "1"},
		Guest: image.Guest{OS: "linux", Arch: "amd64", User: "agent", UID: 1000, Width: 1280, Height: 800},
		Build: image.Build{Recipe: image.Digest("sha256:" + strings.Repeat("1", 64))},
	})
	if err == nil {
		m, err = d.Seal(t.Context(), m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return store.Path(m.Digest)
}

// TestBadImages: what cannot become a desktop is refused, or fails at the stage
// where it shows, with what the failed part said. Nothing of it is left.
func TestBadImages(t *testing.T) {
	data, err := os.MkdirTemp("", "dfb") //nolint:usetesting // a short path, for sockets
	if err == nil {
		err = os.Chmod(data, dirMode) // QEMU's user has to pass
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(data); err != nil {
			t.Error(err)
		}
	})
	shelve(t, data, "silent", halting())
	shelve(t, data, "dies", "no kernel")
	if err := os.Truncate(filepath.Join(shelve(t, data, "damaged", halting()+"\x00"), image.DiskFileRaw), 100); err != nil {
		t.Fatal(err)
	}
	c := daemon(t, data, "--accel", "tcg", "--stage-limit", "link=200ms")
	for _, tt := range []struct {
		image string
		code  api.Code
		stage string
		says  string // somewhere
	}{
		{"unknown", api.CodeNotFound, "", "unknown"},
		{"damaged", api.CodeImageCorrupt, "", image.DiskFileRaw},
		{"dies", api.CodeMachineFailed, "start", "kernel"},
		{"silent", api.CodeGuestFailed, string(api.StageLink), "guestd"},
	} {
		t.Run(tt.image, func(t *testing.T) {
			spec := api.CreateDesktop{Image: tt.image, Name: tt.image, Cold: true}
			_, err := c.Desktops().Create(t.Context(), spec, client.Until(api.StageDrawn), client.Within(2*time.Minute))
			e, ok := errors.AsType[*api.Error](err)
			if !ok || e.Code != tt.code || e.Stage != tt.stage || !strings.Contains(e.Detail+e.Log, tt.says) {
				t.Errorf("%+v", err)
			}
			// One that failed stays for a look at its logs.
			if err := c.Desktop(tt.image).Delete(t.Context()); (err == nil) != (tt.stage != "") {
				t.Errorf("delete: %v", err)
			}
		})
	}
	left, err := filepath.Glob(filepath.Join(data, "desktops", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
