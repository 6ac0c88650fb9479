package rfb_test

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rfb"
)

var full = image.Rect(0, 0, 32, 8)

func frame(t *testing.T, c *rfb.Client) *desktop.Frame {
	t.Helper()
	f, err := c.Frame(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFrameIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		f := frame(t, c)
		if f.Seq != 1 || f.Image.Rect != full {
			t.Fatalf("first frame: seq %d, %v", f.Seq, f.Image.Rect)
		}
		d.fill(full, [3]byte{255, 0, 0})
		<-time.After(15 * time.Millisecond) // 45 ms old now
		if g := frame(t, c); g != f {
			t.Error("a frame 45 ms old was asked for again")
		}
		<-time.After(10 * time.Millisecond) // 55 ms
		g := frame(t, c)
		if age := time.Since(g.At); age > 50*time.Millisecond {
			t.Errorf("frame is %v old", age)
		}
		if g.Seq != 2 || g.Image.RGBAAt(31, 7) != (color.RGBA{255, 0, 0, 255}) {
			t.Errorf("seq %d, last pixel %v", g.Seq, g.Image.RGBAAt(31, 7))
		}
		if f.Image.RGBAAt(31, 7) != (color.RGBA{0, 0, 0, 255}) {
			t.Error("a frame changed after it was handed out")
		}
	})
}

func TestFrameUnchangedSharesPixels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newDisplay(32, 8), rfb.Config{})
		f := frame(t, c)
		<-time.After(time.Second)
		g := frame(t, c)
		if g.Seq != f.Seq || g.Image != f.Image || !g.At.After(f.At) {
			t.Errorf("seq %d then %d, same pixels %v, at %v then %v", f.Seq, g.Seq, f.Image == g.Image, f.At, g.At)
		}
	})
}

func TestTouchAndFrameAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		frame(t, c)
		<-time.After(time.Millisecond)
		d.fill(full, [3]byte{0, 255, 0})
		c.Touch()
		if f := frame(t, c); f.Seq != 2 {
			t.Errorf("after Touch: seq %d, want 2", f.Seq)
		}
		<-time.After(time.Millisecond)
		d.fill(full, [3]byte{0, 0, 255})
		at := time.Now().Add(200 * time.Millisecond)
		f, err := c.FrameAfter(t.Context(), at)
		if err != nil || f.At.Before(at) || f.Seq != 3 {
			t.Errorf("FrameAfter: %+v, %v", f, err)
		}
	})
}

func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		frame(t, c)
		go func() {
			<-time.After(5 * time.Second)
			d.fill(image.Rect(4, 2, 8, 4), [3]byte{1, 2, 3})
		}()
		begin := time.Now()
		f, err := c.Next(t.Context(), 1)
		if err != nil || f.Seq != 2 {
			t.Fatalf("next: %+v, %v", f, err)
		}
		if took := time.Since(begin); took > 5100*time.Millisecond {
			t.Errorf("a change after 5 s was seen after %v", took)
		}
		rects, seq, known := c.Damage(1)
		if diff := cmp.Diff([]image.Rectangle{image.Rect(0, 2, 32, 4)}, rects); diff != "" || seq != 2 || !known {
			t.Errorf("damage %v, %d, %v", rects, seq, known)
		}
		if rects, _, known := c.Damage(2); len(rects) > 0 || !known {
			t.Errorf("damage since now: %v, %v", rects, known)
		}
		if _, _, known := c.Damage(0); known {
			t.Error("damage before the first frame is known")
		}
	})
}

// A frame wanted in the future holds nobody up who watches.
func TestNextBesideFrameAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		frame(t, c)
		begin := time.Now()
		later := begin.Add(5 * time.Second)
		confirmed := make(chan *desktop.Frame)
		go func() {
			f, err := c.FrameAfter(t.Context(), later)
			if err != nil {
				t.Error(err)
			}
			confirmed <- f
		}()
		synctest.Wait()
		time.AfterFunc(time.Second, func() { d.fill(full, [3]byte{7, 7, 7}) })
		if _, err := c.Next(t.Context(), 1); err != nil || time.Since(begin) > 1100*time.Millisecond {
			t.Errorf("a change after 1 s was seen after %v, %v", time.Since(begin), err)
		}
		f := <-confirmed
		if took := time.Since(begin); f.At.Before(later) || took < 5*time.Second || took > 5100*time.Millisecond {
			t.Errorf("frame at %v came after %v", f.At.Sub(begin), took)
		}
	})
}

func TestIdleConnectionIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		f := frame(t, c)
		<-time.After(9 * time.Second)
		frame(t, c)
		<-time.After(9 * time.Second)
		if dials, _ := d.count(); dials != 1 {
			t.Fatalf("%d dials, want 1", dials)
		}
		_, before := d.count()
		<-time.After(2 * time.Second)
		d.serving.Wait() // the server sees the end of the connection
		if _, after := d.count(); after != before {
			t.Error("an unused display was asked for updates")
		}
		if g := frame(t, c); g.Seq != f.Seq {
			t.Errorf("the unchanged screen is number %d after a new connection, want %d", g.Seq, f.Seq)
		}
		<-time.After(11 * time.Second)
		d.fill(full, [3]byte{9, 9, 9})
		if g := frame(t, c); g.Seq != f.Seq+1 {
			t.Errorf("the changed screen is number %d, want %d", g.Seq, f.Seq+1)
		}
		if dials, _ := d.count(); dials != 3 {
			t.Errorf("%d dials, want 3", dials)
		}
	})
}

func TestBrokenConnectionIsDialledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		frame(t, c)
		d.cut()
		<-time.After(time.Second)
		frame(t, c)
		go func() {
			<-time.After(time.Second)
			d.cut()
			<-time.After(time.Second)
			d.fill(full, [3]byte{1, 1, 1})
		}()
		if _, err := c.Next(t.Context(), 1); err != nil {
			t.Errorf("next over a broken connection: %v", err)
		}
	})
}

func TestFailures(t *testing.T) {
	hung := func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	mute := func(context.Context) (net.Conn, error) { a, _ := net.Pipe(); return a, nil }
	tests := []struct {
		name string
		dial func(ctx context.Context) (net.Conn, error)
		took time.Duration
	}{
		{"refused", func(context.Context) (net.Conn, error) { return nil, errors.New("no such socket") }, 0},
		{"dial hangs", hung, 2 * time.Second},
		{"server says nothing", mute, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dials := 0
				c := start(t, newDisplay(1, 1), rfb.Config{Timeout: 2 * time.Second, Dial: func(ctx context.Context) (net.Conn, error) {
					dials++
					return tt.dial(ctx)
				}})
				begin := time.Now()
				_, err := c.Frame(t.Context())
				if !errors.Is(err, desktop.ErrDisconnect) || time.Since(begin) != tt.took {
					t.Errorf("%v after %v", err, time.Since(begin))
				}
				<-time.After(time.Minute)
				if dials != 1 {
					t.Errorf("%d dials for one call", dials)
				}
			})
		})
	}
}

func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{Timeout: 2 * time.Second})
		frame(t, c)
		d.mu.Lock()
		d.silent = true
		d.mu.Unlock()
		<-time.After(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Frame(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with a deadline: %v", err)
		}
		if _, err := c.Frame(t.Context()); !errors.Is(err, desktop.ErrDisconnect) {
			t.Errorf("without a deadline: %v", err)
		}
	})
}

func TestStopped(t *testing.T) {
	c, err := rfb.New(rfb.Config{Dial: newDisplay(1, 1).dial})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Frame(t.Context()); !errors.Is(err, desktop.ErrDisconnect) {
		t.Errorf("frame of a stopped client: %v", err)
	}
	if _, err := rfb.New(rfb.Config{}); err == nil {
		t.Error("a client without Dial was made")
	}
}

// resizing is a display whose size changes with the second request.
func TestResize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		f := frame(t, c)
		d.mu.Lock()
		d.img = image.NewRGBA(image.Rect(0, 0, 48, 4)) // as black as before
		d.dirty = true
		conn := d.conns[0]
		d.mu.Unlock()
		if _, err := conn.Write(update(rect(0, 0, 48, 4, -223))); err != nil {
			t.Fatal(err)
		}
		g, err := c.Next(t.Context(), f.Seq)
		if err != nil || g.Image.Rect != image.Rect(0, 0, 48, 4) || g.Seq != f.Seq+1 {
			t.Fatalf("after the change of size: %+v, %v", g, err)
		}
		if f.Image.Rect != full {
			t.Error("the old frame changed its size")
		}
		if err := c.Pointer(t.Context(), 47, 3, 0); err != nil {
			t.Errorf("pointer on the new last pixel: %v", err)
		}
		if err := c.Pointer(t.Context(), 0, 4, 0); !errors.Is(err, desktop.ErrOutside) {
			t.Errorf("pointer below the new screen: %v", err)
		}
	})
}

func TestOtherServerIsAskedForTheWholeScreen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		d.name = "some server"
		c := start(t, d, rfb.Config{})
		frame(t, c)
		d.fill(full, [3]byte{5, 5, 5})
		<-time.After(time.Second)
		if f := frame(t, c); f.Seq != 2 {
			t.Errorf("seq %d, want 2", f.Seq)
		}
		if err := c.Key(t.Context(), desktop.Key{Sym: 0x1000434}, true); err != nil {
			t.Errorf("a key by keysym: %v", err)
		}
	})
}

func TestManyReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisplay(32, 8)
		c := start(t, d, rfb.Config{})
		errs := make(chan error)
		for range 50 {
			go func() {
				f, err := c.Frame(t.Context())
				if err == nil && f.Seq != 1 {
					err = fmt.Errorf("seq %d", f.Seq)
				}
				errs <- err
			}()
		}
		for range 50 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if dials, asked := d.count(); dials != 1 || asked > 2 {
			t.Errorf("50 readers cost %d dials and %d requests", dials, asked)
		}
	})
}
