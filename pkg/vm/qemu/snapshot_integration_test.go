//go:build integration

package qemu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rfb"
	"github.com/deskfork/deskfork/pkg/vm"
)

// screenOf connects to a machine's display for a minute at most.
func screenOf(t *testing.T, m vm.Machine) (*rfb.Client, context.Context, context.CancelFunc) {
	t.Helper()
	c, err := rfb.New(rfb.Config{
		Dial:    func(ctx context.Context) (net.Conn, error) { return m.DialDisplay(ctx) },
		Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	go func() { _ = c.Run(ctx) }() // ends with ctx
	return c, ctx, cancel
}

// shot takes a machine's screen.
func shot(t *testing.T, m vm.Machine) *image.RGBA {
	t.Helper()
	c, ctx, cancel := screenOf(t, m)
	defer cancel()
	f, err := c.Frame(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return f.Image
}

// assertSameScreen compares pixels; the cursor of a text screen blinks.
func assertSameScreen(t *testing.T, what string, a, b *image.RGBA) {
	t.Helper()
	if d := difference(a, b); d.Dx() > 9 || d.Dy() > 16 {
		t.Errorf("%s: screens differ at %v", what, d)
	}
}

// difference is the smallest rectangle around all pixels that differ.
func difference(a, b *image.RGBA) image.Rectangle {
	if !a.Bounds().Eq(b.Bounds()) {
		return a.Bounds().Union(b.Bounds())
	}
	var d image.Rectangle
	for y := range a.Bounds().Dy() {
		for x := range a.Bounds().Dx() {
			if a.RGBAAt(x, y) != b.RGBAAt(x, y) {
				d = d.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return d
}

// blank reports whether all pixels are one colour.
func blank(img *image.RGBA) bool {
	for i := 4; i < len(img.Pix); i += 4 {
		if !bytes.Equal(img.Pix[i:i+4], img.Pix[:4]) {
			return false
		}
	}
	return true
}

// settled waits until the screen shows something and stays as it is.
func settled(t *testing.T, m vm.Machine, patience time.Duration) *image.RGBA {
	t.Helper()
	last := shot(t, m)
	for end := time.Now().Add(patience); time.Now().Before(end); {
		<-time.After(500 * time.Millisecond)
		now := shot(t, m)
		if d := difference(now, last); !blank(now) && d.Dx() <= 9 && d.Dy() <= 16 {
			return now
		}
		last = now
	}
	t.Fatal("the screen does not come to rest")
	return nil
}

// TestForkAtTheFirmwareScreen forks where there is no driver yet: the picture is
// in the framebuffer alone.
func TestForkAtTheFirmwareScreen(t *testing.T) {
	e := realEnv(t)
	p := e.provider(t)
	m, err := p.Create(t.Context(), e.spec(t))
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, m)
	screen := settled(t, m, 5*time.Minute)
	sealed, err := p.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s1", Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("sealed: pause %v, %+v", sealed.Pause, sealed.Snapshot)
	parent := m
	for n, id := range []vm.SnapshotID{"s1", "s2", "s3"} {
		if n > 0 {
			sealed, err := p.Snapshot(t.Context(), parent, vm.SnapshotSpec{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if sealed.Slow != "" || sealed.Template != "s1" {
				t.Errorf("fork %d: %+v", n, sealed)
			}
			t.Logf("fork %d: pause %v, memory %d KiB", n, sealed.Pause, sealed.MemoryBytes>>10)
		}
		began := time.Now()
		child, err := p.Clone(t.Context(), cloneSpec(id, n))
		if err != nil {
			t.Fatal(err)
		}
		defer destroy(t, child)
		t.Logf("clone %d in %v", n, time.Since(began))
		if s := child.Info().State; s != vm.StateRunning {
			t.Errorf("state of a clone is %s", s)
		}
		assertSameScreen(t, "clone "+string(id), screen, shot(t, child))
		parent = child
	}
	assertSameScreen(t, "parent", screen, shot(t, m))
}

func TestFlattenWithQEMU(t *testing.T) { flattens(t, realEnv(t)) }

// TestTemplateIsOutOfReach looks at a clone from outside: QEMU holds no
// descriptor of what it shares with others and could not write to it.
func TestTemplateIsOutOfReach(t *testing.T) {
	e := realEnv(t)
	p := e.provider(t)
	m := created(t, p, e.spec(t))
	settled(t, m, 5*time.Minute)
	sealed(t, p, m, "s1", true)
	c, err := p.Clone(t.Context(), cloneSpec("s1", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, c)
	template := filepath.Join(e.cfg.DataDir, "templates", "s1")
	for _, name := range []string{"ram", "state", "vram", "system.qcow2", "workspace.qcow2", "meta.json"} {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Join(template, name), &st); err != nil || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
			t.Errorf("%s: owner %d mode %o, %v", name, st.Uid, st.Mode, err)
		}
	}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", c.Info().PID))
	if err != nil || len(fds) == 0 {
		t.Fatal(fds, err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && (to == filepath.Join(template, "ram") || to == filepath.Join(template, "state")) {
			t.Errorf("QEMU still holds %s", to)
		}
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", c.Info().PID))
	if err != nil || !regexp.MustCompile(`(?m)rw-p .* `+regexp.QuoteMeta(filepath.Join(template, "ram"))+`$`).Match(maps) {
		t.Errorf("the template is not mapped private (%v)", err)
	}
}

// TestBurst clones twenty at once.
func TestBurst(t *testing.T) {
	e := realEnv(t)
	p := e.provider(t)
	m := created(t, p, e.spec(t))
	screen := settled(t, m, 5*time.Minute)
	sealed(t, p, m, "s1", false)
	const n = 20
	clones, took := make([]vm.Machine, n), make([]time.Duration, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			began := time.Now()
			clones[i], errs[i] = p.Clone(t.Context(), cloneSpec("s1", i))
			took[i] = time.Since(began)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("clone %d: %v", i, err)
			continue
		}
		assertSameScreen(t, fmt.Sprintf("clone %d", i), screen, shot(t, clones[i]))
		destroy(t, clones[i])
	}
	slices.Sort(took)
	t.Logf("%d clones at once: the middle one in %v, the last in %v", n, took[n/2], took[n-1])
}

func TestQEMUDiesAtEveryStepWithQEMU(t *testing.T) {
	qemuDies(t, provenEnv(t), func(t *testing.T, m vm.Machine) { t.Helper(); settled(t, m, 5*time.Minute) })
}

// blindKernel is a multiboot image that takes the display's memory off the bus, as
// firmware has it before it gives the display a place, and puts it back when a key
// is pressed. The screen's first cell, which QEMU keeps in reach, is green in between
// and red afterwards.
func blindKernel() []byte {
	return multiboot(
		0xba, 0xf8, 0x0c, 0x00, 0x00, // mov edx, 0xcf8
		0xb8, 0x04, 0x18, 0x00, 0x80, // mov eax, 0x80001804: slot 3, command
		0xef,       // out dx, eax
		0xb2, 0xfc, // mov dl, 0xfc
		0xed,       // in eax, dx
		0x89, 0xc1, // mov ecx, eax
		0x83, 0xe0, 0xfd, // and eax, ^2: memory space
		0xef,                                                 // out dx, eax
		0x66, 0xc7, 0x05, 0x00, 0x80, 0x0b, 0x00, 0x20, 0x20, // mov word [0xb8000], 0x2020
		0xe4, 0x64, // wait: in al, 0x64
		0xa8, 0x01, // test al, 1
		0x74, 0xfa, // jz wait
		0x89, 0xc8, // mov eax, ecx
		0xef,                                                 // out dx, eax
		0x66, 0xc7, 0x05, 0x00, 0x80, 0x0b, 0x00, 0x20, 0x40, // mov word [0xb8000], 0x4020
		0xf4, 0xeb, 0xfd, // hlt; jmp -3
	)
}

// showsFirst waits for a colour of the screen's first cell.
func showsFirst(t *testing.T, m vm.Machine, want color.RGBA) *image.RGBA {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); ; {
		s := shot(t, m)
		if s.RGBAAt(4, 8) == want {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("the first cell is %v, not %v", s.RGBAAt(4, 8), want)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// TestSlowForkWithQEMU seals while the display has no place on the bus: the memory
// goes through a stream then, and the clone goes on from there.
func TestSlowForkWithQEMU(t *testing.T) {
	e := realEnv(t)
	spec := e.spec(t)
	spec.Boot.Kernel = filepath.Join(filepath.Dir(e.base), "blind")
	if err := os.WriteFile(spec.Boot.Kernel, blindKernel(), 0o644); err != nil {
		t.Fatal(err)
	}
	p := e.provider(t)
	m := created(t, p, spec)
	green, red := color.RGBA{G: 168, A: 255}, color.RGBA{R: 168, A: 255}
	showsFirst(t, m, green)
	s := sealed(t, p, m, "s1", true)
	if !strings.Contains(s.Slow, "framebuffer") {
		t.Fatalf("sealed as %+v", s)
	}
	t.Logf("pause %v, state %d KiB: %s", s.Pause, s.StateBytes>>10, s.Slow)
	c, err := p.Clone(t.Context(), cloneSpec("s1", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, c)
	assertSameScreen(t, "clone", shot(t, m), shot(t, c))
	press(t, c, desktop.Key{Code: 0x1e, Sym: 'a'})
	showsFirst(t, c, red)
	showsFirst(t, m, green)
	// A clone of a stream can be forked the quick way.
	if s := sealed(t, p, c, "s2", false); s.Slow != "" || s.Template != "s2" {
		t.Errorf("the clone is sealed as %+v", s)
	}
	g, err := p.Clone(t.Context(), cloneSpec("s2", 2))
	if err != nil {
		t.Fatal(err)
	}
	defer destroy(t, g)
	assertSameScreen(t, "grandchild", shot(t, c), shot(t, g))
}

// press presses and releases a key of a machine.
func press(t *testing.T, m vm.Machine, k desktop.Key) {
	t.Helper()
	c, ctx, cancel := screenOf(t, m)
	defer cancel()
	err := errors.Join(c.Key(ctx, k, true), c.Key(ctx, k, false))
	if err == nil {
		// QEMU drops what it has not read when a connection is closed; a frame says it has.
		_, err = c.Frame(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}
