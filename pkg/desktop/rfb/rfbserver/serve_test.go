package rfbserver_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rfb"
	"github.com/deskfork/deskfork/pkg/desktop/rfb/rfbserver"
)

// screen is a source that is painted, and an input that remembers.
type screen struct {
	mu      sync.Mutex
	frame   *desktop.Frame
	changed chan struct{}
	events  []string
	refuse  error
}

func newScreen(w, h int) *screen {
	return &screen{frame: &desktop.Frame{Image: image.NewRGBA(image.Rect(0, 0, w, h)), Seq: 1}, changed: make(chan struct{})}
}

func (s *screen) paint(r image.Rectangle, c color.Color) { s.set(s.size(), r, c) }

func (s *screen) size() image.Point {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frame.Image.Rect.Size()
}

func (s *screen) set(size image.Point, r image.Rectangle, c color.Color) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img := image.NewRGBA(image.Rectangle{Max: size})
	draw.Draw(img, img.Rect, s.frame.Image, image.Point{}, draw.Src)
	draw.Draw(img, r, image.NewUniform(c), image.Point{}, draw.Src)
	next := *s.frame
	next.Image, next.Seq = img, s.frame.Seq+1
	s.frame = &next
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *screen) point(c desktop.Cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.frame
	next.Cursor = c
	s.frame = &next
}

func (s *screen) Frame(context.Context) (*desktop.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frame, nil
}

func (s *screen) Next(ctx context.Context, after uint64) (*desktop.Frame, error) {
	for {
		s.mu.Lock()
		f, changed := s.frame, s.changed
		s.mu.Unlock()
		if f.Seq > after {
			return f, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *screen) say(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
	return s.refuse
}

func (s *screen) Pointer(_ context.Context, x, y int, b desktop.Button) error {
	return s.say("pointer %d,%d %d", x, y, b)
}

func (s *screen) Key(_ context.Context, k desktop.Key, down bool) error {
	return s.say("key %#x %#x %t", k.Sym, k.Code, down)
}

func (s *screen) Release(context.Context) error { return s.say("release") }

func (s *screen) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// serve serves each connection that is dialled until the test ends.
func serve(t *testing.T, cfg rfbserver.Config) func(context.Context) (net.Conn, error) {
	t.Helper()
	var wait sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); wait.Wait() })
	return func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		wait.Go(func() { _ = rfbserver.Serve(ctx, there, cfg) }) // a test closes its end as it likes
		return here, nil
	}
}

// TestOwnClient: our own client sees every pixel, over both encodings that it knows,
// and its events arrive.
func TestOwnClient(t *testing.T) {
	for _, compress := range []bool{false, true} {
		t.Run(fmt.Sprint("compressed ", compress), func(t *testing.T) {
			s := newScreen(200, 150)
			s.paint(image.Rect(10, 10, 90, 70), color.RGBA{200, 10, 30, 255})
			c, err := rfb.New(rfb.Config{Dial: serve(t, rfbserver.Config{Name: "d", Source: s, Input: s}), Compress: compress})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var wait sync.WaitGroup
			wait.Go(func() { _ = c.Run(ctx) }) // ends with ctx
			defer wait.Wait()
			defer cancel()
			f, err := c.Next(ctx, 0)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				s.paint(image.Rect(5*i, 3*i, 5*i+60, 3*i+40), color.RGBA{byte(10 * i), byte(255 - i), byte(i), 255})
				for want, _ := s.Frame(ctx); !alike(f.Image, want.Image); {
					if f, err = c.Next(ctx, f.Seq); err != nil {
						t.Fatalf("after change %d: %v", i, err)
					}
				}
			}
			if err := c.Pointer(ctx, 30, 40, desktop.ButtonLeft); err != nil {
				t.Fatal(err)
			}
			if err := c.Key(ctx, desktop.Key{Sym: 0x61, Code: 0x1e}, true); err != nil {
				t.Fatal(err)
			}
			want := []string{"pointer 30,40 1", "key 0x61 0x1e true"}
			for !slices.Equal(s.seen(), want) {
				select {
				case <-time.After(5 * time.Millisecond):
				case <-ctx.Done():
					t.Fatalf("events %v, want %v", s.seen(), want)
				}
			}
		})
	}
}

// alike compares colours: what is not opaque is not told over RFB.
func alike(a, b *image.RGBA) bool {
	if a.Rect != b.Rect {
		return false
	}
	for i := 0; i < len(a.Pix); i += 4 {
		if !bytes.Equal(a.Pix[i:i+3], b.Pix[i:i+3]) {
			return false
		}
	}
	return true
}

// TestPseudo: what a client knows it is told once, and again when it changes.
func TestPseudo(t *testing.T) {
	s := newScreen(80, 60)
	c := dial(t, rfbserver.Config{Source: s, Input: s}, 0, -223, -239, -258, -308)
	c.ask(0)
	if got := kinds(c.update()); !slices.Equal(got, []int32{-258, -308, 0}) {
		t.Errorf("at first %v", got)
	}
	s.point(desktop.Cursor{Image: image.NewRGBA(image.Rect(0, 0, 9, 5)), Hotspot: image.Pt(2, 3)})
	s.paint(image.Rect(0, 0, 1, 1), color.White)
	c.ask(1)
	got := c.update()
	if !slices.Equal(kinds(got), []int32{-239, 0}) || got[0].rect != image.Rect(2, 3, 11, 8) {
		t.Errorf("a cursor: %v", got)
	}
	s.set(image.Pt(100, 90), image.Rect(0, 0, 1, 1), color.White)
	c.ask(1)
	if got := c.update(); got[0].enc != -308 || got[0].rect != image.Rect(0, 0, 100, 90) || got[1].rect.Max.X != 100 {
		t.Errorf("another size: %v", got[0])
	}
	c.write([]byte{251, 0, 0, 50, 0, 40, 0, 0})
	c.ask(1)
	if got := c.update(); got[0].enc != -308 || got[0].rect.Min != image.Pt(1, 1) {
		t.Errorf("a change of size that is not allowed: %v", got)
	}
}

// TestOnlyChanges: an update holds the tiles that have changed.
func TestOnlyChanges(t *testing.T) {
	s := newScreen(640, 480)
	c := dial(t, rfbserver.Config{Source: s}, 0)
	c.ask(0)
	c.update()
	c.ask(1)
	s.paint(image.Rect(100, 100, 102, 102), color.White)
	got := c.update()
	if len(got) != 1 || got[0].rect != image.Rect(64, 64, 128, 128) {
		t.Errorf("sent %v", got)
	}
}

// TestForced: who asks for everything gets what is on the screen now.
func TestForced(t *testing.T) {
	s := newScreen(64, 64)
	c := dial(t, rfbserver.Config{Source: s}, 0)
	c.ask(0)
	c.update()
	for i := range 5 {
		s.paint(image.Rect(0, 0, 64, 64), color.RGBA{byte(i + 1), 0, 0, 255})
		c.ask(0)
		if got := c.update(); got[0].data[2] != byte(i+1) {
			t.Fatalf("after change %d the pixel is %v", i, got[0].data[:4])
		}
		c.ask(0) // a still screen
		if got := c.update(); got[0].data[2] != byte(i+1) {
			t.Fatalf("again: the pixel is %v", got[0].data[:4])
		}
	}
}

// TestContinuous: a client that does not confirm is sent two updates and no more;
// then the newest one.
func TestContinuous(t *testing.T) {
	s := newScreen(64, 64)
	c := dial(t, rfbserver.Config{Source: s}, 0, -312, -313)
	if b := c.read(9); b[0] != 248 { // fence: the server knows them
		t.Fatalf("message %d", b[0])
	}
	if b := c.read(1); b[0] != 150 {
		t.Fatalf("message %d", b[0])
	}
	c.write([]byte{150, 1, 0, 0, 0, 0, 0, 64, 0, 64})
	confirm := func() { c.write([]byte{248, 0, 0, 0, 0, 0, 0, 1, 0}) }
	for range 2 {
		c.update()
		c.read(9)
		s.paint(image.Rect(0, 0, 64, 64), color.White)
	}
	for i := range 50 {
		s.paint(image.Rect(0, 0, 64, 64), color.RGBA{byte(i), 1, 2, 255})
	}
	c.write([]byte{248, 0, 0, 0, 0x80, 0, 0, 0, 1, 7}) // a fence of the client is answered before
	if b := c.read(10); b[0] != 248 || b[9] != 7 {
		t.Fatalf("answered %v", b)
	}
	confirm()
	got := c.update()
	if px := got[0].data[:3]; !bytes.Equal(px, []byte{2, 1, 49}) {
		t.Errorf("after the break pixels are %v", px)
	}
}

// TestViewer: what a viewer without hands does is dropped, and refused events ring.
func TestViewer(t *testing.T) {
	s := newScreen(64, 64)
	c := dial(t, rfbserver.Config{Source: s}, 0)
	c.write([]byte{5, 1, 0, 1, 0, 1})
	c.write([]byte{6, 0, 0, 0, 0, 0, 0, 1, 'x'})
	c.ask(0)
	c.update()
	if len(s.seen()) > 0 {
		t.Errorf("events %v", s.seen())
	}
	s.refuse = errors.New("no")
	c = dial(t, rfbserver.Config{Source: s, Input: s}, 0)
	c.write([]byte{4, 1, 0, 0, 0, 0, 0, 0x61})
	if b := c.read(1); b[0] != 2 {
		t.Errorf("message %d, want a bell", b[0])
	}
}

// TestClipboards: texts go both ways.
func TestClipboards(t *testing.T) {
	copies, pasted := make(chan string), make(chan string, 1)
	c := dial(t, rfbserver.Config{
		Source: newScreen(64, 64), Copies: copies,
		Paste: func(_ context.Context, text string) error { pasted <- text; return nil },
	}, 0)
	c.write([]byte{6, 0, 0, 0, 0, 0, 0, 2, 'h', 0xe9})
	if got := <-pasted; got != "hé" {
		t.Errorf("pasted %q", got)
	}
	copies <- "ü→"
	if b := c.read(10); !bytes.Equal(b, []byte{3, 0, 0, 0, 0, 0, 0, 2, 0xfc, '?'}) {
		t.Errorf("copied %v", b)
	}
}

// TestSlowClient: one that reads nothing delays neither the source nor others.
func TestSlowClient(t *testing.T) {
	s := newScreen(640, 480)
	slow := dial(t, rfbserver.Config{Source: s}, 0)
	slow.ask(0)
	quick := dial(t, rfbserver.Config{Source: s}, 0)
	quick.ask(0)
	quick.update()
	for i := range 10 {
		quick.ask(1)
		s.paint(image.Rect(0, 0, 640, 480), color.RGBA{byte(i), 0, 0, 255})
		quick.update()
	}
	slow.update()
}

// TestEnds: a protocol error, and the end of the context, end a session.
func TestEnds(t *testing.T) {
	s := newScreen(64, 64)
	for _, tc := range []struct {
		name string
		end  func(net.Conn, context.CancelFunc)
		want error
	}{
		{"the client goes", func(c net.Conn, _ context.CancelFunc) { c.Close() }, nil},
		{"ctx ends", func(_ net.Conn, cancel context.CancelFunc) { cancel() }, nil},
		{"unknown message", func(c net.Conn, _ context.CancelFunc) { _, _ = c.Write([]byte{99}) }, rfbserver.ErrProtocol},
	} {
		t.Run(tc.name, func(t *testing.T) {
			here, there := net.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan error, 1)
			go func() { got <- rfbserver.Serve(ctx, there, rfbserver.Config{Source: s}) }()
			c := &raw{t: t, conn: here}
			c.read(12)
			c.write([]byte("RFB 003.008\n"))
			c.read(2)
			c.write([]byte{1})
			c.read(4)
			c.write([]byte{1})
			c.read(24)
			tc.end(here, cancel)
			if err := <-got; !errors.Is(err, tc.want) || tc.want == nil && err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}
