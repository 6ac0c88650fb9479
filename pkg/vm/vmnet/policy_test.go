package vmnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
	"github.com/deskfork/deskfork/pkg/vm/vmnet/policy"
)

// refusedTCP wants a reset, not a timeout.
func refusedTCP(t *testing.T, g *fakeGuest, addr string) {
	t.Helper()
	c, err := g.dial(within(t, time.Minute), "tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("tcp to %s: %v", addr, err)
	}
}

// refusedUDP wants "port unreachable".
func refusedUDP(t *testing.T, g *fakeGuest, addr string) {
	t.Helper()
	c := g.dialUDP(addr)
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	// The guest's stack reports it to the next read, and wakes nobody.
	for ctx := within(t, time.Minute); ; {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		if err != nil && strings.Contains(err.Error(), "refused") {
			return
		}
		if ctx.Err() != nil {
			t.Errorf("udp to %s: %v", addr, err)
			return
		}
	}
}

// nobody wants an address of the private network to have no owner, and the
// gateway not to stand in for it.
func nobody(t *testing.T, g *fakeGuest, addr string) {
	t.Helper()
	ap := netip.MustParseAddrPort(addr)
	g.forgeSYN(ap.Addr().String(), strconv.Itoa(int(ap.Port())))
	g.forgeUDP(ap.Addr().String(), strconv.Itoa(int(ap.Port())))
	if c, err := g.dial(within(t, time.Minute), "tcp", addr); err == nil || !strings.Contains(err.Error(), "no route") {
		t.Errorf("tcp to %s: %v, %v", addr, c, err)
	}
}

// TestClosedAddresses tries, from inside a guest, what the real policy closes
// and what would answer if it did not: real servers on this very machine.
func TestClosedAddresses(t *testing.T) {
	var reached atomic.Int32
	ln, err := net.Listen("tcp", ":0") // every address of this host
	if err != nil {
		t.Fatal(err)
	}
	accept(t, ln, func(net.Conn) { reached.Add(1) })
	pc, err := net.ListenPacket("udp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pc.Close() })
	_, port, _ := net.SplitHostPort(ln.Addr().String())

	w := newWire(t)
	open(t, w, nil)
	g := boot(t, w, 1500)
	targets := []string{
		"127.0.0.1", "127.1.2.3", "0.0.0.0", "169.254.169.254", "169.254.1.1", "100.100.100.200",
		"192.168.127.1", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "240.0.0.1",
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p := netip.MustParsePrefix(a.String()); p.Addr().Is4() {
			targets = append(targets, p.Addr().String())
		}
	}
	for _, to := range targets {
		t.Run(to, func(t *testing.T) {
			if to == "127.0.0.1" || to == "127.1.2.3" || to == "0.0.0.0" {
				// No stack sends these on a cable: forge them.
				g.forgeSYN(to, port)
				g.forgeUDP(to, port)
				return
			}
			refusedTCP(t, g, net.JoinHostPort(to, port))
			if to != "240.0.0.1" { // RFC 1122: no ICMP error about a reserved address
				refusedUDP(t, g, net.JoinHostPort(to, port))
			}
		})
	}
	ping(t, g, vm.GatewayIP) // all that was sent before has been looked at
	_ = pc.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, from, err := pc.ReadFrom(make([]byte, 10)); err == nil {
		t.Errorf("%d bytes arrived from %s", n, from)
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d connections arrived", n)
	}
}

// TestNoEgress: the link to the host is all there is.
func TestNoEgress(t *testing.T) {
	w := newWire(t)
	n := open(t, w, func(c *vmnet.Config) {
		c.Mode = vm.NetworkNone
		c.Dialer = forbidden{t}
	})
	g := boot(t, w, 1500)
	g.serve(7, echo)
	refusedTCP(t, g, "203.0.113.1:80")
	refusedTCP(t, g, vm.GatewayIP+":80")
	refusedUDP(t, g, "203.0.113.1:443")
	c, err := n.DialContext(within(t, time.Minute), "tcp", ":7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask(t, c, "still here")
}

// forbidden is a Dialer that nobody may use.
type forbidden struct{ t *testing.T }

func (f forbidden) Check(a netip.Addr) error {
	f.t.Errorf("asked about %s", a)
	return nil
}

func (f forbidden) Dial(context.Context, string, netip.AddrPort) (net.Conn, error) {
	f.t.Error("dialled")
	return nil, errors.New("forbidden")
}

// TestGuestsAreApart: two guests with the same addresses on two networks.
func TestGuestsAreApart(t *testing.T) {
	var visits atomic.Int32
	guests := map[string]*fakeGuest{}
	nets := map[string]*vmnet.Network{}
	for _, name := range []string{"a", "b"} {
		w := newWire(t)
		nets[name] = open(t, w, func(c *vmnet.Config) {
			// As open as a policy can be.
			d, err := policy.New(policy.Config{AllowPrivate: true})
			if err != nil {
				t.Fatal(err)
			}
			c.Dialer = d
		})
		guests[name] = boot(t, w, 1500)
	}
	guests["a"].serve(7, func(c net.Conn) {
		visits.Add(1)
		echo(c)
	})
	refusedTCP(t, guests["b"], vm.GatewayIP+":7")
	refusedUDP(t, guests["b"], vm.GatewayIP+":7")
	guests["b"].forgeSYN(vm.GuestIP, "7")
	nobody(t, guests["b"], "192.168.127.3:7")
	if n := visits.Load(); n != 0 {
		t.Errorf("b reached a %d times", n)
	}
	for name, want := range map[string]bool{"a": true, "b": false} {
		c, err := nets[name].DialContext(within(t, time.Minute), "tcp", ":7")
		if (err == nil) != want {
			t.Errorf("host dials %s: %v", name, err)
		}
		if err == nil {
			ask(t, c, "own guest")
			_ = c.Close()
		}
	}
}

func TestUDPEgress(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echoPackets(t, pc)
	w := newWire(t)
	n := open(t, w, func(c *vmnet.Config) {
		c.Dialer = world(t, map[string]string{"udp 203.0.113.1:443": pc.LocalAddr().String()})
	})
	g := boot(t, w, 65520)
	for range 3 {
		c := g.dialUDP("203.0.113.1:443")
		for _, size := range []int{1, 1200, 60_000, 65_400} {
			ask(t, c, strings.Repeat("u", size))
		}
	}
	want := int64(3 * (1 + 1200 + 60_000 + 65_400))
	if sent := egress(t, n, want); sent != want {
		t.Errorf("%d bytes were counted, not %d", sent, want)
	}
}

// watched is a connection that tells when it was closed.
type watched struct {
	net.Conn
	closed chan struct{}
	once   atomic.Bool
}

func (w *watched) Close() error {
	if !w.once.Swap(true) {
		close(w.closed)
	}
	return w.Conn.Close()
}

func TestUDPFlowsEndAndAreBounded(t *testing.T) {
	flows := make(chan *watched, 10)
	var mu sync.Mutex
	var far []net.Conn // guarded by mu
	d, err := policy.New(policy.Config{
		Own: func(netip.Addr) (bool, error) { return false, nil },
		Dial: func(context.Context, string, netip.AddrPort) (net.Conn, error) {
			near, other := net.Pipe()
			mu.Lock()
			defer mu.Unlock()
			far = append(far, other)
			w := &watched{Conn: near, closed: make(chan struct{})}
			flows <- w
			return w, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(t)
	open(t, w, func(c *vmnet.Config) {
		c.Dialer, c.MaxUDP, c.UDPIdle = d, 2, 300*time.Millisecond
	})
	g := boot(t, w, 1500)
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range far {
			_ = c.Close()
		}
	})
	send := func() { _, _ = g.dialUDP("203.0.113.1:443").Write(nil) }
	send()
	send()
	a, b := <-flows, <-flows
	send() // beyond the limit
	ping(t, g, vm.GatewayIP)
	select {
	case <-flows:
		if !a.once.Load() && !b.once.Load() { // what was idle makes room
			t.Error("a third flow was made")
		}
	default:
	}
	for _, f := range []*watched{a, b} {
		select {
		case <-f.closed:
		case <-time.After(time.Minute):
			t.Fatal("an idle flow stays")
		}
	}
	// There is room again; the slot is given back a moment after the close.
	for made := false; !made; {
		send()
		select {
		case <-flows:
			made = true
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("no room")
		}
	}
}

func TestTCPFlowsAreBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accept(t, ln, echo)
	w := newWire(t)
	open(t, w, func(c *vmnet.Config) {
		c.MaxTCP = 2
		c.Dialer = world(t, map[string]string{"tcp 203.0.113.1:80": ln.Addr().String()})
	})
	g := boot(t, w, 1500)
	var conns []net.Conn
	for range 2 {
		c, err := g.dial(within(t, time.Minute), "tcp", "203.0.113.1:80")
		if err != nil {
			t.Fatal(err)
		}
		ask(t, c, "x")
		conns = append(conns, c)
	}
	refusedTCP(t, g, "203.0.113.1:80")
	_ = conns[0].(closeWriter).CloseWrite()
	if _, err := io.ReadAll(conns[0]); err != nil {
		t.Fatal(err)
	}
	_ = conns[0].Close()
	for ctx := within(t, time.Minute); ; { // the slot is given back a moment later
		c, err := g.dial(ctx, "tcp", "203.0.113.1:80")
		if err == nil {
			ask(t, c, "y")
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
