//go:build integration

package rfb_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/keysym"
	"github.com/deskfork/deskfork/pkg/desktop/rfb"
)

// machine is a QEMU without a disk: firmware draws a text screen.
type machine struct {
	vnc string
	qmp *json.Encoder
	rx  *json.Decoder
	dir string
}

func startMachine(t *testing.T, args ...string) *machine {
	t.Helper()
	dir := shortDir(t)
	m := &machine{vnc: filepath.Join(dir, "v"), dir: dir}
	sock := filepath.Join(dir, "q")
	args = append([]string{
		"-machine", "q35,accel=tcg", "-m", "128", "-nodefaults", "-display", "none", "-nic", "none",
		"-vnc", "unix:" + m.vnc, "-qmp", "unix:" + sock + ",server=on,wait=off",
	}, args...)
	cmd := exec.CommandContext(t.Context(), "qemu-system-x86_64", args...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed: it cannot end well
	})
	conn := dialUntil(t, sock)
	t.Cleanup(func() { conn.Close() })
	m.qmp, m.rx = json.NewEncoder(conn), json.NewDecoder(bufio.NewReader(conn))
	m.run(t, "qmp_capabilities", nil)
	return m
}

// shortDir is a directory whose name is short enough for a socket and holds no
// character that means something in QEMU's options, as that of a subtest may.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rfb") //nolint:usetesting // t.TempDir is named for the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func dialUntil(t *testing.T, path string) net.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return conn
		}
		select {
		case <-ctx.Done():
			t.Fatalf("nobody listens on %s: %v", path, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (m *machine) run(t *testing.T, command string, args any) {
	t.Helper()
	req := map[string]any{"execute": command}
	if args != nil {
		req["arguments"] = args
	}
	if err := m.qmp.Encode(req); err != nil {
		t.Fatal(err)
	}
	for {
		var reply struct {
			Return json.RawMessage
			Error  *struct{ Desc string }
		}
		if err := m.rx.Decode(&reply); err != nil {
			t.Fatal(err)
		}
		if reply.Error != nil {
			t.Fatalf("%s: %s", command, reply.Error.Desc)
		}
		if reply.Return != nil {
			return
		}
	}
}

func (m *machine) client(t *testing.T, compress bool) *rfb.Client {
	t.Helper()
	c, err := rfb.New(rfb.Config{Compress: compress, Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", m.vnc)
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

// dump is QEMU's own picture of the screen, by QMP screendump.
func (m *machine) dump(t *testing.T) *image.RGBA {
	t.Helper()
	path := filepath.Join(m.dir, "dump.ppm")
	m.run(t, "screendump", map[string]string{"filename": path})
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := bytes.NewReader(data)
	var w, h, depth int
	if _, err := fmt.Fscanf(r, "P6\n%d %d\n%d\n", &w, &h, &depth); err != nil {
		t.Fatal(err)
	}
	rgb, _ := io.ReadAll(r)
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		copy(img.Pix[4*i:], rgb[3*i:3*i+3])
		img.Pix[4*i+3] = 0xff
	}
	return img
}

// painter is a boot sector that sets a graphics mode and at every key fills
// the screen with the next of 256 colours.
func painter(t *testing.T, dir string) string {
	t.Helper()
	sector := make([]byte, 512)
	copy(sector, []byte{
		0xb8, 0x13, 0x00, 0xcd, 0x10, // mode 13h
		0xb8, 0x00, 0xa0, 0x8e, 0xc0, // es = frame buffer
		0x31, 0xdb, // colour 0
		0x30, 0xe4, 0xcd, 0x16, // wait for a key
		0x43, 0x89, 0xd8, 0x88, 0xc4, // next colour, twice
		0x31, 0xff, 0xb9, 0x00, 0x7d, 0xf3, 0xab, // fill
		0xeb, 0xee, // again
	})
	sector[510], sector[511] = 0x55, 0xaa
	path := filepath.Join(dir, "painter.img")
	if err := os.WriteFile(path, append(sector, make([]byte, 1<<20-512)...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func startPainter(t *testing.T) (*machine, *rfb.Client) {
	t.Helper()
	dir := t.TempDir()
	m := startMachine(t, "-device", "VGA", "-drive", "format=raw,file="+painter(t, dir))
	c := m.client(t, false)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var seq uint64
	var last image.Rectangle
	for {
		f, err := c.Next(ctx, seq)
		if err != nil {
			t.Fatalf("the boot sector did not draw (last %v): %v", last, err)
		}
		if f.Image.Rect.Dx() == 640 && f.Image.Rect.Dy() == 400 && uniform(f.Image) || f.Image.Rect.Dx() == 320 {
			return m, c
		}
		seq, last = f.Seq, f.Image.Rect
	}
}

func uniform(img *image.RGBA) bool {
	return bytes.Equal(img.Pix[:len(img.Pix)-4], img.Pix[4:])
}

func TestQEMUPixels(t *testing.T) {
	for _, encoding := range []string{"raw", "zrle"} {
		for _, vga := range []string{"VGA", "virtio-vga"} {
			t.Run(vga+" "+encoding, func(t *testing.T) {
				m := startMachine(t, "-device", vga)
				c := m.client(t, encoding == "zrle")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var f *desktop.Frame
				var err error
				for f == nil || lit(f.Image) < 2000 {
					var seq uint64
					if f != nil {
						seq = f.Seq
					}
					if f, err = c.Next(ctx, seq); err != nil {
						t.Fatalf("the firmware did not draw: %v", err)
					}
				}
				m.run(t, "stop", nil) // a text cursor blinks
				if f, err = c.FrameAfter(ctx, time.Now()); err != nil {
					t.Fatal(err)
				}
				want := m.dump(t)
				if f.Image.Rect != want.Rect {
					t.Fatalf("frame %v, screendump %v", f.Image.Rect, want.Rect)
				}
				if !bytes.Equal(f.Image.Pix, want.Pix) {
					t.Error("frame and screendump differ")
				}
				t.Logf("%v, %d lit pixels compared", want.Rect.Size(), lit(want))
			})
		}
	}
}

// lit counts the pixels that are not black.
func lit(img *image.RGBA) (n int) {
	for i := 0; i < len(img.Pix); i += 4 {
		if img.Pix[i]|img.Pix[i+1]|img.Pix[i+2] != 0 {
			n++
		}
	}
	return n
}

// After QEMU's refresh timer has backed off, what a key of QMP (unseen by the
// connection) has drawn is in a frame soon, and a frame asked for after that is
// never older than asked.
func TestQEMUFreshAfterIdle(t *testing.T) {
	m, c := startPainter(t)
	var took, seen []time.Duration
	for range 5 {
		f, err := c.Frame(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		select { // the timer backs off while the connection stays
		case <-time.After(6 * time.Second):
		case <-t.Context().Done():
		}
		start := time.Now()
		fresh, err := c.FrameAfter(t.Context(), start)
		if err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
		if fresh.At.Before(start) || fresh.Seq != f.Seq {
			t.Errorf("frame %d at %v, want %d after %v", fresh.Seq, fresh.At, f.Seq, start)
		}
		start = time.Now()
		m.run(t, "send-key", map[string]any{"keys": []any{map[string]string{"type": "qcode", "data": "a"}}})
		for fresh.Seq == f.Seq {
			if fresh, err = c.FrameAfter(t.Context(), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		seen = append(seen, time.Since(start))
	}
	slices.Sort(took)
	slices.Sort(seen)
	t.Logf("fresh frame after 6 s of quiet: %v; a key's effect seen after: %v", took, seen)
	// Left to its timer QEMU would take up to three seconds. On an idle host it is
	// tens of milliseconds.
	if took[2] > time.Second {
		t.Errorf("median %v, want at most a second", took[2])
	}
	if seen[2] > time.Second {
		t.Errorf("effect seen after %v, want at most a second", seen[2])
	}
	took = took[:0]
	for range 40 {
		start := time.Now()
		if _, err := c.FrameAfter(t.Context(), start); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("fresh frames in a row: median %v, worst %v", took[20], took[39])
}

// Every key typed over RFB paints once, whatever its path, and none stays down.
func TestQEMUKeys(t *testing.T) {
	_, c := startPainter(t)
	f, err := c.Frame(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "Return", "Left", "F5", "KP_5"} {
		k, err := keysym.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, down := range []bool{true, false} {
			if err := c.Key(t.Context(), k, down); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		next, err := c.Next(ctx, f.Seq)
		cancel()
		if err != nil {
			t.Fatalf("%s changed nothing: %v", name, err)
		}
		f = next
	}
	if err := c.Key(t.Context(), desktop.Key{Sym: 0x1000434}, true); !errors.Is(err, desktop.ErrUnsupported) {
		t.Errorf("a key without a place: %v, want ErrUnsupported", err)
	}
	if err := c.Pointer(t.Context(), 1, 1, 0); !errors.Is(err, desktop.ErrUnsupported) {
		t.Errorf("pointer under firmware: %v, want ErrUnsupported", err)
	}
}
