package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
)

func TestCallsWaitForTheLink(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	var allowed atomic.Bool
	c := guesttest.Run(t, client.Config{Token: guesttest.Token, Dial: func(ctx context.Context) (net.Conn, error) {
		if !allowed.Load() {
			return nil, errors.New("not yet")
		}
		return g.Dial(ctx)
	}})
	limit := soon(t)
	for told := false; !told; { // it says why once it has tried
		ctx, cancel := context.WithTimeout(limit, 50*time.Millisecond)
		_, err := c.Exec.List(ctx)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || limit.Err() != nil {
			t.Fatalf("without a link: %v", err)
		}
		told = strings.Contains(err.Error(), "not yet")
	}
	if c.Connected() {
		t.Error("it says that it is connected")
	}
	var work sync.WaitGroup
	work.Go(func() {
		if _, err := c.Exec.List(soon(t)); err != nil {
			t.Errorf("waiting call: %v", err)
		}
	})
	allowed.Store(true)
	c.Kick()
	work.Wait()
	if h, err := c.Hello(soon(t)); err != nil || h.OS != runtime.GOOS || h.Protocol != guest.Protocol {
		t.Errorf("hello %+v, %v", h, err)
	}
}

func TestCallInFlightIsLost(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	st, err := c.Exec.Start(soon(t), guest.ExecSpec{Argv: []string{"cat"}, Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{Stdin: true})
	if err != nil {
		t.Fatal(err)
	}
	g.Cut()
	if _, err := io.ReadAll(a.Stdout); !errors.Is(err, client.ErrLinkLost) {
		t.Errorf("stream over a cut: %v", err)
	}
	if now, err := c.Exec.Status(soon(t), st.ID); err != nil || !now.Running {
		t.Errorf("the exec did not outlive its connection: %+v, %v", now, err)
	}
}

func TestDeadPeerIsNoticed(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	var frozen atomic.Bool
	dials := make(chan struct{}, 100)
	c := guesttest.Run(t, client.Config{
		Token: guesttest.Token, Keepalive: 50 * time.Millisecond,
		Dial: func(ctx context.Context) (net.Conn, error) {
			dials <- struct{}{}
			conn, err := g.Dial(ctx)
			return &freezing{Conn: conn, frozen: &frozen}, err
		},
	})
	if _, err := c.Hello(soon(t)); err != nil {
		t.Fatal(err)
	}
	<-dials
	frozen.Store(true)
	<-dials // it gave the silent connection up
	frozen.Store(false)
	relinked(t, c)
}

// TestSuspendedGuestKeepsItsLink: a suspension ends no link. The host may be as
// slow as a guest that is gone, before it or after it: such a try does not count.
func TestSuspendedGuestKeepsItsLink(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	var frozen atomic.Bool
	var dials atomic.Int32
	const keepalive = 20 * time.Millisecond
	c := guesttest.Run(t, client.Config{
		Token: guesttest.Token, Keepalive: keepalive,
		Dial: func(ctx context.Context) (net.Conn, error) {
			dials.Add(1)
			conn, err := g.Dial(ctx)
			return &freezing{Conn: conn, frozen: &frozen}, err
		},
	})
	for limit := soon(t); ; {
		relinked(t, c)
		before := dials.Load()
		c.Suspend()
		frozen.Store(true)
		<-time.After(10 * 3 * keepalive) // ten times what ends a link
		frozen.Store(false)
		c.Resume()
		_, err := c.Exec.List(soon(t))
		if err == nil && dials.Load() == before {
			return
		}
		if limit.Err() != nil || err != nil && !errors.Is(err, client.ErrLinkLost) {
			t.Fatalf("after the suspension: %v, %d dials, %d before", err, dials.Load(), before)
		}
	}
}

func TestSystem(t *testing.T) {
	g := guesttest.Start(t, guesttest.Config{})
	c := g.Client(t)
	if err := errors.Join(
		c.System.SetClock(soon(t), time.Now()),
		c.System.Reseed(soon(t), make([]byte, 64)),
		c.System.SetHostname(soon(t), "desk-1"),
		c.System.Power(soon(t), guest.PowerReboot),
	); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "a b", "-x", "x..y", strings.Repeat("x", 65)} {
		if err := c.System.SetHostname(soon(t), bad); !errors.Is(err, code(guest.CodeInvalid)) {
			t.Errorf("hostname %q: %v", bad, err)
		}
	}
	if err := c.System.Power(soon(t), "explode"); !errors.Is(err, code(guest.CodeInvalid)) {
		t.Errorf("power: %v", err)
	}
	if s := g.Kernel.State(); s.Hostname != "desk-1" || s.Clock.IsZero() || len(s.Entropy) != 1 {
		t.Errorf("kernel %+v", s)
	}
}

func TestThousandAtOnce(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	dir := t.TempDir()
	var work sync.WaitGroup
	for i := range 1000 {
		work.Go(func() {
			name := fmt.Sprintf("%s/%d", dir, i)
			var err error
			switch i % 4 {
			case 0:
				_, err = c.Files.Write(soon(t), name, client.WriteOptions{}, strings.NewReader(name))
			case 1:
				_, err = c.Files.List(soon(t), dir, true)
			case 2:
				_, err = c.Exec.List(soon(t))
			default:
				var res client.Result
				if i%20 == 3 {
					res, err = c.Exec.Output(soon(t), guest.ExecSpec{Argv: []string{"echo", name}}, nil)
					if string(res.Stdout) != name+"\n" {
						t.Errorf("echo %q", res.Stdout)
					}
				}
			}
			if err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		})
	}
	work.Wait()
}

func TestUnreadStreamHoldsNobodyUp(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	st, err := c.Exec.Start(soon(t), guest.ExecSpec{Shell: "yes", Ring: 4096})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Exec.Attach(soon(t), st.ID, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, a)
	var last int64
	for still := 0; still < 20; { // the program comes to a stop
		now, err := c.Exec.Status(soon(t), st.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.Out == last {
			still++
		} else {
			last, still = now.Out, 0
		}
		if now.Out > 4<<20 {
			t.Fatalf("%d bytes were taken from a program that nobody reads", now.Out)
		}
	}
	if _, err := c.Exec.Output(soon(t), guest.ExecSpec{Argv: []string{"true"}}, nil); err != nil {
		t.Errorf("beside an unread stream: %v", err)
	}
	var ms runtime.MemStats
	if _, err := io.CopyN(io.Discard, a.Stdout, 64<<20); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&ms)
	before := ms.HeapAlloc
	if _, err := io.CopyN(io.Discard, a.Stdout, 64<<20); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&ms)
	if grown := int64(ms.HeapAlloc) - int64(before); grown > 32<<20 {
		t.Errorf("64 MiB of stream left %d bytes in memory", grown)
	}
	if err := c.Exec.Remove(soon(t), st.ID); err != nil {
		t.Error(err)
	}
}

func TestDetachedOutputIsBounded(t *testing.T) {
	c := guesttest.Start(t, guesttest.Config{}).Client(t)
	res, err := c.Exec.Start(soon(t), guest.ExecSpec{Shell: "seq 1 100000", Ring: 1000})
	if err != nil {
		t.Fatal(err)
	}
	end, err := c.Exec.Wait(soon(t), res.ID)
	if err != nil || end.Out-end.OutKept != 1000 {
		t.Fatalf("end %+v, %v", end, err)
	}
	a, err := c.Exec.Attach(soon(t), res.ID, client.AttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer detach(t, a)
	tail, err := io.ReadAll(a.Stdout)
	if err != nil || a.OutFrom != end.OutKept || len(tail) != 1000 || !bytes.HasSuffix(tail, []byte("99999\n100000\n")) {
		t.Errorf("from %d: %d bytes, %v", a.OutFrom, len(tail), err)
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("work", func(t *testing.T) {
		g := guesttest.Start(t, guesttest.Config{})
		c := g.Client(t)
		for range 20 {
			if _, err := c.Exec.Output(soon(t), shell("echo x"), strings.NewReader("in")); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Files.Stat(soon(t), "/"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(soon(t))
		if _, err := c.Files.Watch(ctx, t.TempDir(), true); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec.Start(soon(t), shell("sleep 1000 & sleep 1000")); err != nil {
			t.Fatal(err)
		}
		g.Cut()
		relinked(t, c)
		cancel()
	})
	deadline := time.After(time.Minute)
	for runtime.NumGoroutine() > before+2 { // the runtime's own may come late
		select {
		case <-deadline:
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// relinked waits until calls go through again; one that was under way when the
// link was cut may be lost.
func relinked(t *testing.T, c *client.Client) {
	t.Helper()
	for {
		_, err := c.Exec.List(soon(t))
		if err == nil {
			return
		}
		if !errors.Is(err, client.ErrLinkLost) {
			t.Fatal(err)
		}
	}
}
