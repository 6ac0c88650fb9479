package rfb_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"image"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop/rfb"
)

// display is a fake VNC server that draws one picture. Like QEMU it answers a
// non-incremental request, at its next tick, with all that has changed.
type display struct {
	name string
	tick time.Duration // from a request to its answer

	mu      sync.Mutex
	img     *image.RGBA
	dirty   bool
	dials   int
	asked   int // update requests
	refuse  error
	silent  bool // requests are not answered any more
	log     []string
	greeted []string // what the client said up to its encodings
	conns   []net.Conn
	serving sync.WaitGroup
}

func newDisplay(w, h int) *display {
	return &display{name: "QEMU (test)", tick: 30 * time.Millisecond, img: image.NewRGBA(image.Rect(0, 0, w, h))}
}

func (d *display) dial(context.Context) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dials++
	if d.refuse != nil {
		return nil, d.refuse
	}
	ours, theirs := net.Pipe()
	d.conns = append(d.conns, ours)
	d.serving.Go(func() { defer ours.Close(); d.serve(ours) })
	return theirs, nil
}

// cut breaks every connection.
func (d *display) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		c.Close()
	}
	d.conns = nil
}

// fill paints part of the screen with the colour r, g, b.
func (d *display) fill(r image.Rectangle, rgb [3]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			copy(d.img.Pix[d.img.PixOffset(x, y):], rgb[:])
		}
	}
	d.dirty = true
}

func (d *display) count() (dials, asked int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dials, d.asked
}

// input returns the input messages so far, in hexadecimal, and forgets them.
func (d *display) input() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := strings.Join(d.log, "\n")
	d.log = nil
	return s
}

func (d *display) serve(conn net.Conn) {
	hello := "RFB 003.008\n\x01\x01\x00\x00\x00\x00"
	d.mu.Lock()
	init := binary.BigEndian.AppendUint16(nil, uint16(d.img.Rect.Dx()))
	init = binary.BigEndian.AppendUint16(init, uint16(d.img.Rect.Dy()))
	d.mu.Unlock()
	init = append(init, make([]byte, 16)...)
	init = binary.BigEndian.AppendUint32(init, uint32(len(d.name)))
	init = append(init, d.name...)
	for _, step := range []struct {
		send string
		read int
	}{{hello[:12], 12}, {hello[12:14], 1}, {hello[14:], 1}, {string(init), 20}, {"", 4 + 4*11}} {
		if step.send != "" {
			if _, err := io.WriteString(conn, step.send); err != nil {
				return
			}
		}
		said := make([]byte, step.read)
		if _, err := io.ReadFull(conn, said); err != nil {
			return
		}
		d.mu.Lock()
		d.greeted = append(d.greeted, hex.EncodeToString(said))
		d.mu.Unlock()
	}
	if _, err := conn.Write(update(rect(0, 0, 1, 1, -258), rect(1, 0, 1, 1, -257))); err != nil {
		return
	}
	for {
		kind := make([]byte, 1)
		if _, err := io.ReadFull(conn, kind); err != nil {
			return
		}
		length, ok := map[byte]int{3: 9, 4: 7, 5: 5, 255: 11}[kind[0]]
		if !ok {
			return
		}
		body := make([]byte, length)
		if _, err := io.ReadFull(conn, body); err != nil {
			return
		}
		if kind[0] != 3 {
			d.record(append(kind, body...))
			continue
		}
		if !d.answer(conn, body) {
			return
		}
	}
}

func (d *display) record(msg []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if msg[0] == 255 && binary.BigEndian.Uint32(msg[8:]) == 0 {
		return // the wake-up
	}
	d.log = append(d.log, hex.EncodeToString(msg))
}

func (d *display) answer(conn net.Conn, req []byte) bool {
	if req[0] == 1 {
		return true // the non-incremental request that follows is answered
	}
	<-time.After(d.tick)
	d.mu.Lock()
	d.asked++
	if d.silent {
		d.mu.Unlock()
		return true
	}
	full := binary.BigEndian.Uint16(req[5:]) > 1
	w, h := d.img.Rect.Dx(), d.img.Rect.Dy()
	if !full && !d.dirty {
		w, h = min(w, 16), 1
	}
	d.dirty = false
	var pix []byte
	for y := range h {
		for x := range w {
			c := d.img.RGBAAt(x, y)
			pix = append(pix, c.B, c.G, c.R, 0)
		}
	}
	d.mu.Unlock()
	_, err := conn.Write(update(rect(0, 0, w, h, 0, pix)))
	return err == nil
}

// start runs a client of the display until the test ends.
func start(t *testing.T, d *display, cfg rfb.Config) *rfb.Client {
	t.Helper()
	if cfg.Dial == nil {
		cfg.Dial = d.dial
	}
	c, err := rfb.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		d.cut()
		d.serving.Wait()
	})
	return c
}
