package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// browsing asks a guest until the test ends; the channel gives each answer.
func browsing(t *testing.T, c *client.Client) (states <-chan bool, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(soon(t))
	told := make(chan bool)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Desktop.Browsing(ctx, func(open bool) {
			select {
			case told <- open:
			case <-ctx.Done():
			}
		})
	}()
	end = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = end() })
	return told, end
}

// TestBrowsing: each who asks is told what is so, and what changes, also when the
// helper or the link has ended meanwhile.
func TestBrowsing(t *testing.T) {
	t.Parallel()
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	states, end := browsing(t, c)
	expect := func(want bool) {
		t.Helper()
		select {
		case got := <-states:
			if got != want {
				t.Fatalf("told %v", got)
			}
		case <-soon(t).Done():
			t.Fatalf("not told %v", want)
		}
	}
	expect(false)
	g.Desktop.Browse(true)
	expect(true)
	g.Desktop.Browse(false)
	expect(false)
	g.Desktop.Browse(true)
	expect(true)
	g.Desktop.SetUp(false) // nobody looks at the screen
	expect(false)
	g.Desktop.SetUp(true)
	expect(true)
	g.Cut()
	if err := end(); !errors.Is(err, client.ErrLinkLost) && !errors.Is(err, context.Canceled) {
		t.Errorf("the link was cut: %v", err)
	}
	states, end = browsing(t, c)
	expect(true)
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

// TestBrowsingEndsWithTheLink without its caller's doing.
func TestBrowsingEndsWithTheLink(t *testing.T) {
	t.Parallel()
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	ready(t, c)
	err := c.Desktop.Browsing(soon(t), func(bool) { g.Cut() })
	if !errors.Is(err, client.ErrLinkLost) {
		t.Errorf("got %v", err)
	}
}

// TestBrowsingWithoutDisplay: nothing is open.
func TestBrowsingWithoutDisplay(t *testing.T) {
	t.Parallel()
	c := guesttest.Start(t, guesttest.Config{NoDesktop: true}).Client(t)
	states, end := browsing(t, c)
	if <-states {
		t.Error("a page is open on no screen")
	}
	if err := end(); errors.Is(err, &guest.Error{Code: guest.CodeUnsupported}) {
		t.Error(err)
	}
}

// TestBrowsingOfAnOldGuest: it does not know the question, and the link goes on.
func TestBrowsingOfAnOldGuest(t *testing.T) {
	t.Parallel()
	old := mux.Router{guest.OpHello: mux.Typed(func(context.Context, *mux.Call, guest.HelloParams) (guest.Hello, error) {
		return guest.Hello{Protocol: guest.Protocol, Version: "old"}, nil
	})}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := mux.Upgrade(w, r, mux.Timing{Idle: time.Minute, Write: time.Minute})
		if err != nil {
			t.Error(err)
			return
		}
		_ = mux.New(mux.Config{Conn: conn, Handler: old}).Run(t.Context()) // ends with its client
	}))
	t.Cleanup(srv.Close)
	c := guesttest.Run(t, client.Config{Token: "any", Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", srv.Listener.Addr().String())
	}})
	err := c.Desktop.Browsing(soon(t), func(bool) { t.Error("it has told something") })
	if !errors.Is(err, &guest.Error{Code: guest.CodeUnsupported}) || !c.Connected() {
		t.Errorf("got %v, connected: %v", err, c.Connected())
	}
}
