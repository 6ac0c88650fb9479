//go:build cgo

package rtc_test

import (
	"errors"
	"image"
	"image/color"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
	"github.com/deskfork/deskfork/pkg/desktop/stream"
	"github.com/deskfork/deskfork/pkg/desktop/video"
	"github.com/deskfork/deskfork/pkg/desktop/video/videotest"
)

// move scrolls a window at 30 steps a second until stop, and returns when it has.
func (w *world) move(stop <-chan time.Time) {
	tick := time.NewTicker(time.Second / 30)
	defer tick.Stop()
	for i := uint64(0); ; i++ {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		w.source.Draw(func(img *image.RGBA) image.Rectangle {
			r := image.Rect(80, 70, 560, 350)
			videotest.Scroll(img, r, 14)
			videotest.Text(img, image.Rect(r.Min.X, r.Max.Y-14, r.Max.X, r.Max.Y), i)
			return r
		})
	}
}

// TestJoinStill: who joins a still screen, also as the second, has a picture, and
// then a sharp one, over UDP and over TCP.
func TestJoinStill(t *testing.T) {
	for _, tc := range []struct {
		name  string
		codec video.Codec
		strip string
	}{
		{"VP9 over UDP", video.VP9, " tcp "}, {"VP8 over UDP", video.VP8, " tcp "}, {"VP9 over TCP", video.VP9, " udp "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, rtc.Config{})
			for range 2 {
				c := w.join(t, options{codec: tc.codec, answer: without(tc.strip)})
				c.like(w.source.Image(), 20)
				c.like(w.source.Image(), 35)
			}
		})
	}
}

// TestResize: another size of the screen comes without another connection.
func TestResize(t *testing.T) {
	w := newWorld(t, rtc.Config{})
	c := w.join(t, options{})
	c.like(w.source.Image(), 20)
	w.source.Resize(videotest.Screen(800, 600, 2))
	c.like(w.source.Image(), 20)
}

// TestLoss: with a tenth of the packets lost, what is shown after motion is what is
// on the screen.
func TestLoss(t *testing.T) {
	w := newWorld(t, rtc.Config{})
	p := newProxy(t, w.endpoint.Addr(), 10, 0)
	c := w.join(t, options{answer: p.through})
	c.like(w.source.Image(), 20)
	w.move(time.After(2 * time.Second))
	c.like(w.source.Image(), 26) // of whatever level
}

// TestStorm: many requests for keys are few keys.
func TestStorm(t *testing.T) {
	w := newWorld(t, rtc.Config{})
	c := w.join(t, options{})
	c.like(w.source.Image(), 20)
	before, begun := c.peer.Stats().Keys, time.Now()
	for range 100 {
		c.lost()
		<-time.After(20 * time.Millisecond)
	}
	most := uint64(time.Since(begun)/(500*time.Millisecond)) + 2
	if n := c.peer.Stats().Keys - before; n < 2 || n > most {
		t.Errorf("%d keys in %s, want 2 to %d", n, time.Since(begun), most)
	}
}

// TestSlowViewer: one on a way of 500 kbit/s gets the low level and goes on; the
// other is sent all that there is.
func TestSlowViewer(t *testing.T) {
	w := newWorld(t, rtc.Config{})
	p := newProxy(t, w.endpoint.Addr(), 0, 500_000)
	fast, slow := w.join(t, options{}), w.join(t, options{answer: p.through, hasty: true})
	fast.like(w.source.Image(), 20)
	stop, moved := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(moved)
		w.move(stop)
	}()
	slow.until("of the low level", func(p picture) bool { return p.img.Rect.Dx() == 320 })
	if s := slow.peer.Stats(); s.Level != stream.Low {
		t.Errorf("the slow one: %+v", s)
	}
	fast.more(5)
	if s := fast.peer.Stats(); s.Dropped > 0 {
		t.Errorf("the fast one: %+v", s)
	}
	close(stop)
	<-moved
	fast.like(w.source.Image(), 26)
}

// TestRefused: what is no offer, and one that nothing fits.
func TestRefused(t *testing.T) {
	w := newWorld(t, rtc.Config{})
	const head = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
	for _, tc := range []struct {
		name, offer string
		want        error
	}{
		{"nothing", "", rtc.ErrOffer},
		{"words", "hello", rtc.ErrOffer},
		{"audio alone", head + "m=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=rtpmap:111 opus/48000/2\r\n", rtc.ErrOffer},
		{"H.264 alone", head + "m=video 9 UDP/TLS/RTP/SAVPF 102\r\na=rtpmap:102 H264/90000\r\n", rtc.ErrCodec},
		{"VP9 of 10 bits", head + "m=video 9 UDP/TLS/RTP/SAVPF 102\r\na=rtpmap:102 VP9/90000\r\na=fmtp:102 profile-id=2\r\n", rtc.ErrCodec},
		{"VP8 without credentials", head + "m=video 9 UDP/TLS/RTP/SAVPF 102\r\na=rtpmap:102 VP8/90000\r\n", rtc.ErrOffer},
	} {
		if _, _, err := w.endpoint.Connect(t.Context(), tc.offer, rtc.Watch{Stream: w.stream}); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestAddresses: the answer names our own addresses and the public ones, with one
// port for UDP and TCP.
func TestAddresses(t *testing.T) {
	public := []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("203.0.113.8")}
	w := newWorld(t, rtc.Config{Public: public})
	answer := ""
	c := w.join(t, options{answer: func(a string) string { answer = a; return a }})
	c.like(w.source.Image(), 20)
	port := netip.AddrPortFrom(w.endpoint.Addr().Addr(), w.endpoint.Addr().Port()).String()
	_, port, _ = strings.Cut(port, ":")
	for _, addr := range []string{"127.0.0.1", "203.0.113.7", "203.0.113.8"} {
		for _, proto := range []string{"udp", "tcp"} {
			found := false
			for line := range strings.Lines(answer) {
				found = found || containsAll(line, []string{"a=candidate:", " " + proto + " ", " " + addr + " " + port + " "})
			}
			if !found {
				t.Errorf("no candidate %s %s:%s in\n%s", proto, addr, port, answer)
			}
		}
	}
}

// TestLeave: an end leaves nothing, whoever makes it.
func TestLeave(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(c *client, cancel func())
	}{
		{"the viewer", func(c *client, _ func()) { _ = c.pc.Close() }},
		{"we", func(c *client, _ func()) { c.peer.Close() }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, rtc.Config{})
			c := w.join(t, options{})
			c.like(w.source.Image(), 20)
			if _, ok := w.endpoint.Peer(c.peer.ID()); !ok {
				t.Error("a viewer is not known")
			}
			tc.end(c, nil)
			select {
			case <-c.peer.Done():
			case <-time.After(patience):
				t.Fatal("it goes on")
			}
			if _, ok := w.endpoint.Peer(c.peer.ID()); ok {
				t.Error("one that has left is known")
			}
		})
	}
}

// TestCursor: a viewer hears how the pointer looks and where it is, once each.
func TestCursor(t *testing.T) {
	w := newWorld(t, rtc.Config{})
	img := image.NewRGBA(image.Rect(0, 0, 3, 2))
	img.SetRGBA(1, 1, color.RGBA{255, 0, 0, 255})
	w.source.Point(desktop.Cursor{Image: img, Hotspot: image.Pt(1, 0), Pos: image.Pt(20, 30)})
	c := w.join(t, options{labels: []string{"cursor"}})
	told := c.messages("cursor")
	if b := <-told; b[0] != 16 || string(b[5:9]) != "\x89PNG" || b[2] != 1 {
		t.Errorf("looks %x", b)
	}
	if diff := cmp.Diff([]byte{17, 0, 20, 0, 30}, <-told); diff != "" {
		t.Error(diff)
	}
	w.source.Point(desktop.Cursor{Image: img, Hotspot: image.Pt(1, 0), Pos: image.Pt(21, 300)})
	if diff := cmp.Diff([]byte{17, 0, 21, 1, 44}, <-told); diff != "" {
		t.Error(diff)
	}
	w.source.Point(desktop.Cursor{})
	if diff := cmp.Diff([]byte{16, 0, 0, 0, 0}, <-told); diff != "" {
		t.Error(diff)
	}
}

// messages are those that come over a channel.
func (c *client) messages(label string) <-chan []byte {
	out := make(chan []byte, 16)
	c.channels[label].OnMessage(func(m message) { out <- m.Data })
	return out
}

// TestInput: what a viewer sends is played in order, and it hears of what was not.
func TestInput(t *testing.T) {
	w := newWorld(t, rtc.Config{})
	hand := &recorder{calls: make(chan string, 16)}
	c := w.join(t, options{labels: []string{"moves", "input"}, control: hand})
	answers := c.messages("input")
	opened := make(chan struct{}, 2)
	for _, label := range []string{"moves", "input"} {
		c.channels[label].OnOpen(func() { opened <- struct{}{} })
	}
	<-opened
	<-opened
	send := func(label string, b ...byte) {
		t.Helper()
		if err := c.channels[label].Send(b); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want string) {
		t.Helper()
		if got := <-hand.calls; got != want {
			t.Errorf("played %q, want %q", got, want)
		}
	}
	send("moves", 1, 0, 0, 0, 1, 0, 10, 0, 20)
	expect("pointer (10,20) 0")
	send("input", 2, 0, 0, 0, 2, 0, 10, 0, 20, 0, 1)
	expect("pointer (10,20) 1")
	send("moves", 1, 0, 0, 0, 3, 1, 10, 0, 20)
	expect("pointer (266,20) 1")
	send("input", 3, 0, 0, 0, 4, 0, 0, 0, 'a', 0, 0, 0, 30, 1)
	expect("key {97 30} true")
	if b := <-answers; string(b) != "\x12\x00\x00\x00\x04control_held\x00somebody else has it" {
		t.Errorf("answered %q", b)
	}
	send("input", 9)
	c.peer.Close()
	expect("release")
}
