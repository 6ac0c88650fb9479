package vmnet_test

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
)

// TestRestart: the guest lives on while the process at the host's end is
// replaced, by one that closed and by one that was killed.
func TestRestart(top *testing.T) {
	t := top
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, ln, echo)
	dialer := world(t, map[string]string{"tcp 203.0.113.1:80": ln.Addr().String()})
	w := newWire(t)
	set := func(c *vmnet.Config) { c.Dialer = dialer }
	n := open(t, w, set)
	g := boot(t, w, 1500)
	g.serve(7, echo)
	for _, how := range []string{"closed", "killed"} {
		t.Run(how, func(t *testing.T) {
			out, err := g.dial(within(t, time.Minute), "tcp", "203.0.113.1:80")
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			ask(t, out, "before")
			if how == "closed" {
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
			}
			// A killed process leaves its file behind; here its socket is left
			// without a name when the new one takes the path.
			next := open(top, w, set) // for the next subtest too
			c, err := next.DialContext(within(t, time.Minute), "tcp", ":7")
			if err != nil {
				t.Fatal(err)
			}
			ask(t, c, "the same guest")
			_ = c.Close()
			_ = out.SetDeadline(time.Now().Add(time.Minute))
			_, _ = io.WriteString(out, "x")
			if _, err := out.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
				t.Errorf("a connection of before: %v", err)
			}
			again, err := g.dial(within(t, time.Minute), "tcp", "203.0.113.1:80")
			if err != nil {
				t.Fatal(err)
			}
			ask(t, again, "after")
			_ = again.Close()
			n = next
		})
	}
	t.Run("the old one leaves the new one's socket alone", func(t *testing.T) {
		next := open(top, w, set) // for the next subtest too
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		c, err := next.DialContext(within(t, time.Minute), "tcp", ":7")
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, "still bound")
		_ = c.Close()
	})
}

// TestHypervisorRestart: the cable is not ended by an end that is missing.
func TestHypervisorRestart(t *testing.T) {
	w := newWire(t)
	n := open(t, w, nil)
	for range 2 {
		g := boot(t, w, 1500)
		g.serve(7, echo)
		c, err := n.DialContext(within(t, time.Minute), "tcp", ":7")
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, "hello")
		g.unplg()
		_, _ = io.WriteString(c, "lost") // refused by the socket that is gone
		_ = os.Remove(w.g)
		_, _ = io.WriteString(c, "lost too") // no file
		_ = c.Close()
	}
	for ctx := within(t, time.Minute); n.Stats().Dropped == 0; {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("no frame was counted as dropped")
		}
	}
}

// TestPausedGuest: an end that takes nothing holds up no call on the host.
func TestPausedGuest(t *testing.T) {
	w := newWire(t)
	n := open(t, w, nil)
	g := boot(t, w, 1500)
	g.serve(7, echo)
	c, err := n.DialContext(within(t, time.Minute), "tcp", ":7")
	if err != nil {
		t.Fatal(err)
	}
	ask(t, c, "running")
	resume := g.pause()
	_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	start := time.Now()
	sent, err := c.Write(make([]byte, 8<<20))
	var ne net.Error
	if !errors.As(err, &ne) || !ne.Timeout() || time.Since(start) > time.Minute {
		t.Errorf("write to a paused guest: %v after %s", err, time.Since(start))
	}
	start = time.Now()
	if _, err := n.DialContext(within(t, 300*time.Millisecond), "tcp", ":7"); err == nil || time.Since(start) > time.Minute {
		t.Errorf("dial of a paused guest: %v after %s", err, time.Since(start))
	}
	resume()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.CopyN(io.Discard, c, int64(sent)); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	g.pause()
	start = time.Now()
	if err := n.Close(); err != nil || time.Since(start) > time.Minute {
		t.Errorf("close with a paused guest: %v after %s", err, time.Since(start))
	}
}

func TestDNSFromInside(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started, ended := make(chan struct{}), make(chan struct{})
	up := &mdns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: mdns.HandlerFunc(func(w mdns.ResponseWriter, q *mdns.Msg) {
		r := new(mdns.Msg).SetReply(q)
		rr, _ := mdns.NewRR(q.Question[0].Name + " 1 IN A 169.254.169.254")
		r.Answer = append(r.Answer, rr)
		_ = w.WriteMsg(r)
	})}
	go func() {
		defer close(ended)
		_ = up.ActivateAndServe()
	}()
	<-started
	t.Cleanup(func() {
		_ = up.Shutdown()
		<-ended
	})
	for mode, want := range map[vm.NetworkMode]string{vm.NetworkOpen: "169.254.169.254", vm.NetworkNone: "REFUSED"} {
		t.Run(string(mode), func(t *testing.T) {
			w := newWire(t)
			open(t, w, func(c *vmnet.Config) {
				c.Mode = mode
				c.Upstreams = func() ([]string, error) { return []string{pc.LocalAddr().String()}, nil }
			})
			g := boot(t, w, 1500)
			c := &mdns.Client{Timeout: time.Minute}
			r, _, err := c.ExchangeWithConn(new(mdns.Msg).SetQuestion("metadata.test.", mdns.TypeA), &mdns.Conn{Conn: g.dialUDP(vm.GatewayIP + ":53")})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(r.String(), want) {
				t.Errorf("want %s in\n%s", want, r)
			}
			tc, err := g.dial(within(t, time.Minute), "tcp", vm.GatewayIP+":53")
			if err != nil {
				t.Fatal(err)
			}
			defer tc.Close()
			q := new(mdns.Msg).SetQuestion("metadata.test.", mdns.TypeA)
			if r, _, err = c.ExchangeWithConn(q, &mdns.Conn{Conn: tc}); mode == vm.NetworkNone && (err != nil || r.Rcode != mdns.RcodeRefused) {
				t.Errorf("over tcp: %v, %v", r, err)
			}
		})
	}
}

// TestNothingIsLeft: networks with flows of every kind end without a trace.
func TestNothingIsLeft(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, ln, echo)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	dialer := world(t, map[string]string{"tcp 203.0.113.1:80": ln.Addr().String(), "udp 203.0.113.1:443": pc.LocalAddr().String()})
	before := runtime.NumGoroutine()
	for range 5 {
		w := newWire(t)
		n := open(t, w, func(c *vmnet.Config) { c.Dialer = dialer })
		g := boot(t, w, 1500)
		g.serve(7, echo)
		c, err := n.DialContext(within(t, time.Minute), "tcp", ":7")
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, "x") // left open
		out, err := g.dial(within(t, time.Minute), "tcp", "203.0.113.1:80")
		if err != nil {
			t.Fatal(err)
		}
		ask(t, out, "x") // left open
		if _, err := g.dial(within(t, time.Minute), "tcp", vm.GatewayIP+":53"); err != nil {
			t.Fatal(err)
		}
		_, _ = g.dialUDP("203.0.113.1:443").Write([]byte("x"))
		// A handshake that never ends, and a dial that nobody answers.
		g.forgeSYN("203.0.113.1", "80")
		ping(t, g, vm.GatewayIP)
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("a connection outlived its network")
		}
		g.unplg()
	}
	for ctx := within(t, time.Minute); runtime.NumGoroutine() > before; {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
		}
	}
}
