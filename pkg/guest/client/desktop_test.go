package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image/png"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

// ready waits for the fake's helper.
func ready(t *testing.T, c *client.Client) {
	t.Helper()
	waitFor(t, func() bool { _, err := c.Desktop.Ready(soon(t)); return err == nil })
}

func TestDesktop(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	ready(t, c)
	shot, err := c.Desktop.Screenshot(soon(t), guest.ScreenshotParams{})
	if err != nil || shot.Width != 1280 || shot.Height != 800 || shot.Format != guest.FormatPNG {
		t.Fatalf("%+v, %v", shot, err)
	}
	if cfg, err := png.DecodeConfig(bytes.NewReader(shot.Data)); err != nil || cfg.Width != 1280 {
		t.Errorf("picture %+v, %v", cfg, err)
	}
	raw, err := c.Desktop.Screenshot(soon(t), guest.ScreenshotParams{Format: guest.FormatRGBA})
	if err != nil || len(raw.Data) != 1280*800*4 || raw.Data[2] != 200 {
		t.Errorf("raw %d bytes, %v", len(raw.Data), err)
	}
	if s, err := c.Desktop.SetScreen(soon(t), 640, 480); err != nil || s.Width != 640 {
		t.Errorf("screen %+v, %v", s, err)
	}
	events := []guest.InputEvent{{Kind: "move", X: 3, Y: 4}, {Kind: "text", Text: "ü"}}
	res, err := c.Desktop.Input(soon(t), events)
	if err != nil || res.Done != 2 || res.Pointer != (guest.Point{X: 3, Y: 4}) {
		t.Errorf("input %+v, %v", res, err)
	}
	if diff := cmp.Diff(events, g.Desktop.Events()); diff != "" {
		t.Error(diff)
	}
	if p, err := c.Desktop.Pointer(soon(t)); err != nil || p.X != 3 {
		t.Errorf("pointer %+v, %v", p, err)
	}
	big := bytes.Repeat([]byte("€"), 2<<20)
	if err := c.Desktop.ClipboardSet(soon(t), guest.Clipboard{Type: "text/plain", Data: big}); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Desktop.ClipboardGet(soon(t), "text/plain"); err != nil || !bytes.Equal(got.Data, big) {
		t.Errorf("clipboard of %d bytes, %v", len(got.Data), err)
	}
	if _, err := c.Desktop.ClipboardGet(soon(t), "image/png"); !errors.Is(err, code(guest.CodeNotFound)) {
		t.Errorf("other type: %v", err)
	}
	if kinds, err := c.Desktop.ClipboardTypes(soon(t)); err != nil || !cmp.Equal(kinds, []string{"text/plain"}) {
		t.Errorf("types %v, %v", kinds, err)
	}
	ws, err := c.Desktop.Windows(soon(t))
	if err != nil || len(ws) != 1 {
		t.Fatalf("windows %v, %v", ws, err)
	}
	if err := errors.Join(
		c.Desktop.WindowOp(soon(t), guest.WindowOp{ID: ws[0].ID, Op: "close"}),
		c.Desktop.SetKeyboard(soon(t), "de", "nodeadkeys"),
	); err != nil {
		t.Error(err)
	}
	if pid, err := c.Desktop.Launch(soon(t), guest.Launch{Argv: []string{"xterm"}}); err != nil || pid == 0 {
		t.Errorf("launch %d, %v", pid, err)
	}
}

func TestDisplayComesAndGoes(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	ups := make(chan bool, 16)
	c := guesttest.Run(t, client.Config{Dial: g.Dial, Token: guesttest.Token, OnEvent: func(name string, params json.RawMessage) {
		var e guest.DisplayEvent
		if name == guest.EventDisplay && json.Unmarshal(params, &e) == nil {
			ups <- e.Up
		}
	}})
	ready(t, c)
	hang := make(chan struct{})
	g.Desktop.Override(func(ctx context.Context, m guest.HelperMessage) *guest.HelperMessage {
		if m.Op == guest.OpPointer {
			close(hang)
			<-ctx.Done()
		}
		return nil
	})
	var work sync.WaitGroup
	work.Go(func() {
		if _, err := c.Desktop.Pointer(soon(t)); !errors.Is(err, code(guest.CodeNoDisplay)) {
			t.Errorf("call under way: %v", err)
		}
	})
	<-hang
	g.Desktop.SetUp(false)
	work.Wait()
	if _, err := c.Desktop.Screen(soon(t)); !errors.Is(err, code(guest.CodeNoDisplay)) {
		t.Errorf("without a display: %v", err)
	}
	if _, err := c.Exec.Output(soon(t), guest.ExecSpec{Argv: []string{"true"}}, nil); err != nil {
		t.Errorf("exec without a display: %v", err)
	}
	g.Desktop.Override(nil)
	for <-ups { // until it says that the display went
	}
}

func TestDesktopDeadline(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	ready(t, c)
	g.Desktop.Override(func(ctx context.Context, m guest.HelperMessage) *guest.HelperMessage {
		if m.Op == guest.OpWindows {
			<-ctx.Done()
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.Desktop.Windows(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stuck helper: %v", err)
	}
	if _, err := c.Desktop.Screen(soon(t)); err != nil {
		t.Errorf("beside a stuck request: %v", err)
	}
}

func TestNoDesktop(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{NoDesktop: true}).Client(t)
	if _, err := c.Desktop.Screen(soon(t)); !errors.Is(err, code(guest.CodeNoDisplay)) {
		t.Errorf("got %v", err)
	}
	if h, err := c.Hello(soon(t)); err != nil || len(h.Missing) == 0 {
		t.Errorf("hello %+v, %v", h, err)
	}
}

func TestDialPort(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	var work sync.WaitGroup
	work.Go(func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		b, err := io.ReadAll(conn) // up to the half-close
		if err == nil {
			_, err = conn.Write(append([]byte("got "), b...))
		}
		if err != nil {
			t.Error(err)
		}
	})
	conn, err := c.DialPort(soon(t), "127.0.0.1", port)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := conn.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("deadline: %v", err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(noise(2, 3<<20))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(all); err != nil {
		t.Fatal(err)
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	back, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(back, append([]byte("got "), all...)) {
		t.Errorf("%d bytes came back, %v", len(back), err)
	}
	conn.Close()
	ln.Close()
	work.Wait()
	if _, err := c.DialPort(soon(t), "127.0.0.1", port); !errors.Is(err, code(guest.CodeRefused)) {
		t.Errorf("closed port: %v", err)
	}
	if _, err := c.DialPort(soon(t), "", 0); !errors.Is(err, code(guest.CodeInvalid)) {
		t.Errorf("port 0: %v", err)
	}
}

// TestHelperKnowsTheDeadline: what may take minutes is given minutes by the
// helper, too, which has a limit of its own for who states none.
func TestHelperKnowsTheDeadline(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	ready(t, c)
	given := make(chan time.Duration, 1)
	g.Desktop.Override(func(_ context.Context, m guest.HelperMessage) *guest.HelperMessage {
		if m.Op != guest.OpPark {
			return nil
		}
		given <- m.Timeout
		return &guest.HelperMessage{Result: json.RawMessage(`{}`)}
	})
	const want = 8 * time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), want)
	defer cancel()
	if _, err := c.Desktop.Park(ctx, guest.Park{Argv: []string{"chromium"}, Class: "Chromium"}); err != nil {
		t.Fatal(err)
	}
	if got := <-given; got <= want-time.Minute || got > want {
		t.Errorf("the helper was given %s of %s", got, want)
	}
}
