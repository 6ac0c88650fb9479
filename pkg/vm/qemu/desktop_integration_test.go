//go:build integration

package qemu_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
)

const desktopToken = "0123456789abcdef0123456789abcdef"

// desktopEnv is a place for machines of a built image; DESKFORK_E2E_DATA is a
// data directory with one, as for the tests in test/e2e.
func desktopEnv(t *testing.T) (*env, vm.Spec) {
	t.Helper()
	root := os.Getenv("DESKFORK_E2E_DATA")
	if root == "" {
		t.Fatal("DESKFORK_E2E_DATA names no data directory with an image (leave these tests out by -skip 'ADesktop$')")
	}
	manifests, err := filepath.Glob(filepath.Join(root, "images", "*", "manifest.json"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("no image in %s (%v)", root, err)
	}
	e := realEnv(t)
	// Beside the image rather than in /tmp: the machines' memory goes there.
	data, err := os.MkdirTemp(root, "vm-") //nolint:usetesting // elsewhere than its directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	if err := os.Chmod(data, 0o711); err != nil {
		t.Fatal(err)
	}
	e.cfg.DataDir = filepath.Join(data, "data")
	e.cfg.Network = func(_ context.Context, s qemu.NetworkSpec) (qemu.Network, error) {
		return vmnet.Open(vmnet.Config{Local: s.Local, Remote: s.Remote, Mode: s.Mode, Logger: s.Logger})
	}
	newest := slices.MaxFunc(manifests, func(a, b string) int { return modified(t, a).Compare(modified(t, b)) })
	return e, imageSpec(t, newest)
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

func imageSpec(t *testing.T, manifest string) vm.Spec {
	t.Helper()
	var m struct {
		Boot struct{ Cmdline string }
	}
	b, err := os.ReadFile(manifest)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	config, err2 := json.Marshal(guest.Config{Token: desktopToken})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	dir := filepath.Dir(manifest)
	shape, _ := vm.ShapeNamed("medium")
	return vm.Spec{
		ID: "d1", Incarnation: "i1", Shape: shape, Width: 1280, Height: 800, Network: vm.NetworkNone,
		Boot: vm.Boot{
			Kernel: filepath.Join(dir, "vmlinuz"), Initrd: filepath.Join(dir, "initrd.img"), Cmdline: m.Boot.Cmdline,
		},
		System:      vm.Disk{Base: filepath.Join(dir, "system.img"), BaseFormat: "raw"},
		Workspace:   vm.Disk{SizeMiB: 1024, Label: "workspace"},
		GuestConfig: config,
	}
}

// agent connects to a machine's guestd.
func agent(t *testing.T, m vm.Machine) *client.Client {
	t.Helper()
	c := client.New(client.Config{
		Dial:  func(ctx context.Context) (net.Conn, error) { return m.DialGuest(ctx, guest.Port) },
		Token: desktopToken, Scale: 8,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }() // awaited in clean-up
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// sh runs a script as root in the guest.
func sh(t *testing.T, c *client.Client, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, err := c.Exec.Output(ctx, guest.ExecSpec{Argv: []string{"/bin/sh", "-c", script}, User: "root", Dir: "/"}, nil)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSpace(string(r.Stdout))
}

// assertAlike lets a clock in a panel tick.
func assertAlike(t *testing.T, what string, a, b *image.RGBA) {
	t.Helper()
	if !a.Bounds().Eq(b.Bounds()) || blank(b) {
		t.Fatalf("%s: screen of %v, want %v, and not blank", what, b.Bounds(), a.Bounds())
	}
	n := 0
	for i := 0; i < len(a.Pix); i += 4 {
		if !bytes.Equal(a.Pix[i:i+4], b.Pix[i:i+4]) {
			n++
		}
	}
	if n > len(a.Pix)/4/100 {
		t.Errorf("%s: %d pixels differ at %v", what, n, difference(a, b))
	}
}

const counter = `echo before > /root/mark; nohup sh -c 'i=0; while :; do i=$((i+1)); echo $i > /run/count; sleep 0.1; done' >/dev/null 2>&1 &`

// TestForkADesktop boots the real image once, and clones and forks it.
func TestForkADesktop(t *testing.T) {
	e, spec := desktopEnv(t)
	p := e.provider(t)
	m, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, m)
	began := time.Now()
	parent := agent(t, m)
	sh(t, parent, counter)
	sh(t, parent, "while ! pgrep xfdesktop >/dev/null; do sleep 1; done; sleep 10")
	settled(t, m, 4*time.Minute)
	t.Logf("cold boot to a drawn desktop: %v", time.Since(began).Round(time.Second))

	sealed, err := p.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "boot", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	screen := shot(t, m)
	t.Logf("seal: pause %v, memory %d MiB, state %d KiB, disk %d MiB", sealed.Pause, sealed.MemoryBytes>>20, sealed.StateBytes>>10, sealed.DiskBytes>>20)
	if sealed.Template != "boot" || sealed.Slow != "" {
		t.Errorf("sealed %+v, want a template", sealed)
	}
	m0, c0 := aClone(t, p, "boot", 0)
	assertAlike(t, "clone", screen, shot(t, m0))
	sh(t, c0, "echo clone > /root/mark; dd if=/dev/urandom of=/root/blob bs=1M count=8 2>/dev/null; sync")
	if got := sh(t, parent, "cat /root/mark"); got != "before" {
		t.Errorf("the parent's disk says %q", got)
	}

	began = time.Now()
	sealed, err = p.Snapshot(t.Context(), m0, vm.SnapshotSpec{ID: "fork"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("fork: pause %v, whole call %v, memory %d KiB", sealed.Pause, time.Since(began), sealed.MemoryBytes>>10)
	if sealed.Template != "boot" || sealed.Slow != "" {
		t.Errorf("forked %+v, want pages over the boot template", sealed)
	}
	sum := sh(t, c0, "sha256sum /root/blob")
	for n := 1; n <= 2; n++ {
		child, c := aClone(t, p, "fork", n)
		assertAlike(t, fmt.Sprintf("fork %d", n), shot(t, m0), shot(t, child))
		if got := sh(t, c, "cat /root/mark; echo 3 > /proc/sys/vm/drop_caches; sha256sum /root/blob"); got != "clone\n"+sum {
			t.Errorf("fork %d has %q, want the clone's files", n, got)
		}
		sh(t, c, fmt.Sprintf("echo fork%d > /root/mark; sync", n))
	}
	freshWorkspace(t, p)
	textConsole(t, p)
	if got := sh(t, c0, "cat /root/mark"); got != "clone" {
		t.Errorf("the forked clone's disk says %q", got)
	}
}

// aClone clones, and proves that the guest answers and goes on counting.
func aClone(t *testing.T, p *qemu.Provider, id vm.SnapshotID, n int) (vm.Machine, *client.Client) {
	t.Helper()
	spec := cloneSpec(id, n)
	spec.Network = vm.NetworkNone
	began := time.Now()
	w, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	ready := time.Now()
	m, err := w.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loaded := time.Now()
	t.Cleanup(func() { destroy(t, m) })
	c := agent(t, m)
	sh(t, c, "true")
	t.Logf("clone of %s: prepare %v, start %v, first exec %v", id, ready.Sub(began), loaded.Sub(ready), time.Since(loaded))
	count := func() int {
		k, err := strconv.Atoi(sh(t, c, "cat /run/count"))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	first := count()
	sh(t, c, "sleep 1")
	if now := count(); now <= first {
		t.Errorf("clone of %s: the counter stands at %d", id, now)
	}
	return m, c
}

// freshWorkspace gives a clone a second disk of another size.
func freshWorkspace(t *testing.T, p *qemu.Provider) {
	t.Helper()
	spec := cloneSpec("boot", 7)
	spec.Network = vm.NetworkNone
	spec.Workspace = vm.Disk{SizeMiB: 3000, Label: "another"}
	m, err := p.Clone(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, m)
	c := agent(t, m)
	script := "blockdev --getsize64 /dev/vdb; blkid -o value -s LABEL /dev/vdb; mkdir -p /run/w && mount /dev/vdb /run/w && echo x > /run/w/x && sync && df -m --output=size /run/w | tail -1 | tr -d ' '"
	lines := strings.Fields(sh(t, c, script))
	if len(lines) != 3 || lines[0] != strconv.Itoa(3000<<20) || lines[1] != "another" {
		t.Fatalf("the guest sees %v, want a disk of 3000 MiB labelled another", lines)
	}
	if size, err := strconv.Atoi(lines[2]); err != nil || size < 2700 || size > 3000 {
		t.Errorf("its file system has %s MiB", lines[2])
	}
}

// switchVT makes the guest show its third console, where there is no X server.
const switchVT = `perl -e 'open F,"+<","/dev/tty0" or die; ioctl(F,0x5606,3) or die'; sleep 1; ls -la / >/dev/tty3; sleep 2`

// textConsole forks a clone that shows text, which draws on in the child alone.
func textConsole(t *testing.T, p *qemu.Provider) {
	t.Helper()
	m, c := aClone(t, p, "boot", 8)
	sh(t, c, switchVT)
	before := shot(t, m)
	sealed(t, p, m, "text", false)
	child, cc := aClone(t, p, "text", 9)
	assertSameScreen(t, "text console", before, shot(t, child))
	sh(t, cc, "echo a line of the child >/dev/tty3; sleep 1")
	if d := difference(before, shot(t, child)); d.Dx() < 50 || d.Dy() > 40 {
		t.Errorf("the child's console shows its line at %v", d)
	}
	assertSameScreen(t, "the parent's console", before, shot(t, m))
}
