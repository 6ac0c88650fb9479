package vmnet_test

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
	"github.com/deskfork/deskfork/pkg/vm/vmnet/policy"
)

// wire is the pair of paths of one cable.
type wire struct{ g, h string }

func newWire(tb testing.TB) wire {
	tb.Helper()
	dir := tb.TempDir()
	return wire{filepath.Join(dir, "g"), filepath.Join(dir, "h")}
}

// plug binds the hypervisor's end.
func (w wire) plug(tb testing.TB) *net.UnixConn {
	tb.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: w.g, Net: "unixgram"})
	if err != nil {
		tb.Fatal(err)
	}
	if err := c.SetWriteBuffer(1 << 20); err != nil {
		tb.Fatal(err)
	}
	return c
}

// fakeGuest is a whole TCP/IP stack at the hypervisor's end of the cable.
type fakeGuest struct {
	tb    testing.TB
	stack *stack.Stack
	conn  *net.UnixConn
	to    *net.UnixAddr
	unplg func()
	power sync.RWMutex // held for writing while paused
}

// boot starts a guest with the static address that DHCP would give it.
func boot(tb testing.TB, w wire, mtu int) *fakeGuest {
	tb.Helper()
	hw, err := net.ParseMAC(vm.GuestMAC)
	if err != nil {
		tb.Fatal(err)
	}
	g := &fakeGuest{tb: tb, conn: w.plug(tb), to: &net.UnixAddr{Name: w.h, Net: "unixgram"}}
	queue := channel.New(4096, uint32(mtu), tcpip.LinkAddress(hw))
	queue.LinkEPCapabilities = stack.CapabilityResolutionRequired
	g.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	sack, wait := tcpip.TCPSACKEnabled(true), tcpip.TCPTimeWaitTimeoutOption(time.Second)
	must(tb, g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack))
	must(tb, g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &wait))
	must(tb, g.stack.CreateNIC(1, ethernet.New(queue)))
	must(tb, g.stack.AddProtocolAddress(1, tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{Address: address(vm.GuestIP), PrefixLen: 24},
	}, stack.AddressProperties{}))
	subnet := tcpip.AddressWithPrefix{Address: address(vm.GuestIP), PrefixLen: 24}.Subnet()
	g.stack.SetRouteTable([]tcpip.Route{
		{Destination: subnet, NIC: 1},
		{Destination: header.IPv4EmptySubnet, Gateway: address(vm.GatewayIP), NIC: 1},
	})
	g.run(queue)
	return g
}

// run moves frames until the guest is unplugged.
func (g *fakeGuest) run(queue *channel.Endpoint) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for pkt := queue.ReadContext(ctx); pkt != nil; pkt = queue.ReadContext(ctx) {
			g.power.RLock()
			v := pkt.ToView()
			_, _ = g.conn.WriteToUnix(v.AsSlice(), g.to)
			g.power.RUnlock()
			v.Release()
			pkt.DecRef()
		}
	})
	wg.Go(func() {
		buf := make([]byte, 128<<10)
		for {
			g.power.RLock()
			g.power.RUnlock() //nolint:staticcheck // the critical section is the wait
			n, err := g.conn.Read(buf)
			if err != nil {
				return
			}
			pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(buf[:n])})
			queue.InjectInbound(0, pkt)
			pkt.DecRef()
		}
	})
	g.unplg = sync.OnceFunc(func() {
		cancel()
		_ = g.conn.Close()
		g.stack.Close()
		wg.Wait()
		g.stack.Destroy()
	})
	g.tb.Cleanup(g.unplg)
}

// pause stops the guest from taking frames until the returned function is
// called or the test ends.
func (g *fakeGuest) pause() (resume func()) {
	g.power.Lock()
	resume = sync.OnceFunc(g.power.Unlock)
	g.tb.Cleanup(resume)
	return resume
}

func (g *fakeGuest) full(addr string) tcpip.FullAddress {
	ap := netip.MustParseAddrPort(addr)
	return tcpip.FullAddress{NIC: 1, Addr: tcpip.AddrFrom4(ap.Addr().As4()), Port: ap.Port()}
}

// dial connects out of the guest over TCP.
func (g *fakeGuest) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	c, err := gonet.DialContextTCP(ctx, g.stack, g.full(addr), ipv4.ProtocolNumber)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (g *fakeGuest) dialUDP(addr string) *gonet.UDPConn {
	g.tb.Helper()
	to := g.full(addr)
	c, err := gonet.DialUDP(g.stack, nil, &to, ipv4.ProtocolNumber)
	if err != nil {
		g.tb.Fatal(err)
	}
	g.tb.Cleanup(func() { _ = c.Close() })
	return c
}

// serve runs handle for every connection to a port of the guest.
func (g *fakeGuest) serve(port uint16, handle func(net.Conn)) {
	g.tb.Helper()
	ln, err := gonet.ListenTCP(g.stack, tcpip.FullAddress{NIC: 1, Addr: address(vm.GuestIP), Port: port}, ipv4.ProtocolNumber)
	if err != nil {
		g.tb.Fatal(err)
	}
	accept(g.tb, ln, handle)
}

// accept serves a listener until the test ends.
func accept(tb testing.TB, ln net.Listener, handle func(net.Conn)) {
	tb.Helper()
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	tb.Cleanup(func() { _ = ln.Close() })
}

func address(s string) tcpip.Address { return tcpip.AddrFrom4(netip.MustParseAddr(s).As4()) }

func must(tb testing.TB, err tcpip.Error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// open starts the host's side of a cable.
func open(tb testing.TB, w wire, change func(*vmnet.Config)) *vmnet.Network {
	tb.Helper()
	cfg := vmnet.Config{Local: w.g, Remote: w.h, Mode: vm.NetworkOpen}
	if change != nil {
		change(&cfg)
	}
	n, err := vmnet.Open(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := n.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return n
}

// world stands for the internet: the real policy over addresses that lead to
// servers of the test.
func world(tb testing.TB, servers map[string]string) vmnet.Dialer {
	tb.Helper()
	d, err := policy.New(policy.Config{
		Own: func(netip.Addr) (bool, error) { return false, nil },
		Dial: func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, servers[network+" "+to.String()])
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

func within(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	tb.Cleanup(cancel)
	return ctx
}

// reset aborts every connection of the guest.
func (g *fakeGuest) reset() {
	for _, e := range g.stack.RegisteredEndpoints() {
		e.Abort()
	}
}

// reader makes a payload of b.
func reader(b []byte) *bytes.Reader { return bytes.NewReader(b) }

// echoPackets sends back what comes to pc, which it closes with the test.
func echoPackets(t *testing.T, pc net.PacketConn) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<16)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(buf[:n], from)
		}
	}()
	t.Cleanup(func() {
		_ = pc.Close()
		<-done
	})
}
