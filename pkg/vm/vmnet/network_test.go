package vmnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
)

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// ask sends text and wants it back.
func ask(tb testing.TB, c net.Conn, text string) {
	tb.Helper()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		tb.Fatal(err)
	}
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != text {
		tb.Fatalf("asked %q, got %q, %v", text, buf, err)
	}
}

func TestHostDialsGuest(t *testing.T) {
	for _, mode := range []vm.NetworkMode{vm.NetworkOpen, vm.NetworkNone} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWire(t)
			n := open(t, w, func(c *vmnet.Config) { c.Mode = mode })
			g := boot(t, w, 1500)
			g.serve(7, echo)
			for _, addr := range []string{vm.GuestIP + ":7", ":7"} {
				c, err := n.DialContext(within(t, time.Minute), "tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				ask(t, c, "hello")
				_ = c.Close()
			}
		})
	}
}

func TestDialErrors(t *testing.T) {
	w := newWire(t)
	n := open(t, w, nil)
	boot(t, w, 1500)
	for name, tc := range map[string]struct {
		network, address string
		want             error
		text             string
	}{
		"nobody listens":    {"tcp", ":9", syscall.ECONNREFUSED, ""},
		"another machine":   {"tcp", "192.168.127.3:9", nil, "only other machine"},
		"gateway":           {"tcp", "192.168.127.1:53", nil, "only other machine"},
		"public":            {"tcp", "203.0.113.1:9", nil, "only other machine"},
		"udp":               {"udp", ":9", net.UnknownNetworkError("udp"), ""},
		"no port":           {"tcp", vm.GuestIP, nil, "missing port"},
		"port 0":            {"tcp", ":0", nil, "want 1 to 65535"},
		"port out of range": {"tcp", ":65536", nil, "want 1 to 65535"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.DialContext(within(t, time.Minute), tc.network, tc.address)
			if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("got %v, want %v %s", err, tc.want, tc.text)
			}
		})
	}
}

func TestDialWaitsForTheGuest(t *testing.T) {
	w := newWire(t)
	n := open(t, w, nil)
	t.Run("absent until the deadline", func(t *testing.T) {
		_, err := n.DialContext(within(t, 300*time.Millisecond), "tcp", ":7")
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := n.DialContext(ctx, "tcp", ":7"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("comes later", func(t *testing.T) {
		dialled := make(chan error, 1)
		go func() {
			c, err := n.DialContext(within(t, 30*time.Second), "tcp", ":7")
			if err == nil {
				_ = c.Close()
			}
			dialled <- err
		}()
		select {
		case err := <-dialled:
			t.Fatalf("dialled nobody: %v", err)
		case <-time.After(1500 * time.Millisecond): // longer than one round of ARP
		}
		g := boot(t, w, 1500)
		g.serve(7, echo)
		// The first dial may meet the guest before its port is open.
		if err := <-dialled; err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			t.Error(err)
		}
	})
	t.Run("closed meanwhile", func(t *testing.T) {
		n := open(t, newWire(t), nil)
		time.AfterFunc(50*time.Millisecond, func() { _ = n.Close() })
		if _, err := n.DialContext(within(t, 30*time.Second), "tcp", ":7"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

// closeWriter is what a half-close needs.
type closeWriter interface{ CloseWrite() error }

// answerAtEOF reads everything, then answers with what it read.
func answerAtEOF(c net.Conn) {
	b, err := io.ReadAll(c)
	if err == nil {
		_, _ = c.Write(append([]byte("got "), b...))
	}
}

func TestHalfClose(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, ln, answerAtEOF)
	w := newWire(t)
	n := open(t, w, func(c *vmnet.Config) {
		c.Dialer = world(t, map[string]string{"tcp 203.0.113.1:80": ln.Addr().String()})
	})
	g := boot(t, w, 1500)
	g.serve(7, answerAtEOF)
	for name, dial := range map[string]func() (net.Conn, error){
		"host to guest": func() (net.Conn, error) { return n.DialContext(within(t, time.Minute), "tcp", ":7") },
		"guest to world": func() (net.Conn, error) {
			return g.dial(within(t, time.Minute), "tcp", "203.0.113.1:80")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			_, _ = io.WriteString(c, "all of it")
			if err := c.(closeWriter).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(c); string(b) != "got all of it" || err != nil {
				t.Errorf("got %q, %v", b, err)
			}
		})
	}
}

func TestEgress(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, io.MultiReader(strings.NewReader(r.Method+" "), r.Body))
	}))
	t.Cleanup(web.Close)
	w := newWire(t)
	n := open(t, w, func(c *vmnet.Config) {
		c.Dialer = world(t, map[string]string{"tcp 203.0.113.1:80": web.Listener.Addr().String()})
	})
	g := boot(t, w, 65520)
	if n.Egress() != 0 {
		t.Errorf("a guest that has said nothing has sent %d bytes", n.Egress())
	}
	client := http.Client{Transport: &http.Transport{DialContext: g.dial}, Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	body := strings.Repeat("0123456789", 100_000)
	r, err := client.Post("http://203.0.113.1/", "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, err := io.ReadAll(r.Body); string(b) != "POST "+body || err != nil {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
	if sent := int(egress(t, n, int64(len(body)))); sent > len(body)+1000 {
		t.Errorf("%d bytes were sent, of a body of %d", sent, len(body))
	}
}

// egress is what was sent once it is least or more: bytes are counted after they
// were written, so what was sent may be answered before it is counted.
func egress(t *testing.T, n *vmnet.Network, least int64) int64 {
	t.Helper()
	for end := time.Now().Add(time.Minute); n.Egress() < least; {
		if time.Now().After(end) {
			t.Fatalf("%d bytes were counted, less than %d", n.Egress(), least)
		}
		<-time.After(time.Millisecond)
	}
	return n.Egress()
}

// TestResetIsPassedOn: what breaks on one side breaks on the other.
func TestResetIsPassedOn(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	far := make(chan net.Conn, 1)
	accept(t, ln, func(c net.Conn) {
		b := make([]byte, 1)
		_, _ = c.Read(b)
		if b[0] == 'r' { // reset from outside
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		}
		_, _ = c.Write(b)
		_, err := c.Read(b) // reset from inside
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("outside saw %v", err)
		}
		far <- c
	})
	w := newWire(t)
	open(t, w, func(c *vmnet.Config) {
		c.Dialer = world(t, map[string]string{"tcp 203.0.113.1:80": ln.Addr().String()})
	})
	g := boot(t, w, 1500)
	c, err := g.dial(within(t, time.Minute), "tcp", "203.0.113.1:80")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, "r")
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("guest saw %v", err)
	}
	if c, err = g.dial(within(t, time.Minute), "tcp", "203.0.113.1:80"); err != nil {
		t.Fatal(err)
	}
	ask(t, c, "x")
	g.reset()
	select {
	case <-far:
	case <-time.After(time.Minute):
		t.Error("outside never saw the reset")
	}
}

func TestConfig(t *testing.T) {
	dir := t.TempDir()
	ok := vmnet.Config{Local: dir + "/g", Remote: dir + "/h", Mode: vm.NetworkOpen}
	file := dir + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*vmnet.Config)
		want   string
	}{
		"no local":     {func(c *vmnet.Config) { c.Local = "" }, "local path is empty"},
		"no remote":    {func(c *vmnet.Config) { c.Remote = "" }, "remote path is empty"},
		"same":         {func(c *vmnet.Config) { c.Remote = c.Local }, "the same"},
		"long":         {func(c *vmnet.Config) { c.Local = "/" + strings.Repeat("x", 107) }, "108 bytes"},
		"mode":         {func(c *vmnet.Config) { c.Mode = "" }, "network mode"},
		"small mtu":    {func(c *vmnet.Config) { c.MTU = 575 }, "mtu 575"},
		"large mtu":    {func(c *vmnet.Config) { c.MTU = 65521 }, "mtu 65521"},
		"limits":       {func(c *vmnet.Config) { c.MaxTCP = -1 }, "limits"},
		"not a socket": {func(c *vmnet.Config) { c.Remote = file }, "not a socket"},
		"no directory": {func(c *vmnet.Config) { c.Remote = dir + "/none/h" }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ok
			tc.change(&cfg)
			n, err := vmnet.New(cfg)
			if err == nil {
				_ = n.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	t.Run("a new network binds and starts nothing", func(t *testing.T) {
		n, err := vmnet.New(ok)
		if err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(ok.Remote)
		if err != nil || fi.Mode() != os.ModeSocket|0o600 {
			t.Errorf("socket: %v, %v", fi, err)
		}
		if _, err := n.DialContext(t.Context(), "tcp", ":7"); !errors.Is(err, net.ErrClosed) {
			t.Errorf("dial before start: %v", err)
		}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := n.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := os.Stat(ok.Remote); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("socket after close: %v", err)
		}
		if err := n.Start(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("start after close: %v", err)
		}
	})
}
