package vmnet_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmnet"
)

// frame wraps a payload in Ethernet and IPv4, with valid checksums.
func frame(proto uint8, src, dst string, payload []byte) []byte {
	b := make([]byte, header.EthernetMinimumSize+header.IPv4MinimumSize+len(payload))
	header.Ethernet(b).Encode(&header.EthernetFields{
		SrcAddr: linkAddr(vm.GuestMAC), DstAddr: linkAddr(vmnet.GatewayMAC), Type: ipv4.ProtocolNumber,
	})
	ip := header.IPv4(b[header.EthernetMinimumSize:])
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(ip)), TTL: 64, Protocol: proto, SrcAddr: address(src), DstAddr: address(dst),
	})
	ip.SetChecksum(^ip.CalculateChecksum())
	copy(ip.Payload(), payload)
	return b
}

func linkAddr(s string) tcpip.LinkAddress {
	hw, _ := net.ParseMAC(s)
	return tcpip.LinkAddress(hw)
}

func udpPacket(src, dst string, from, to uint16, data []byte) []byte {
	u := header.UDP(make([]byte, header.UDPMinimumSize+len(data)))
	u.Encode(&header.UDPFields{SrcPort: from, DstPort: to, Length: uint16(len(u))})
	copy(u.Payload(), data)
	sum := header.PseudoHeaderChecksum(header.UDPProtocolNumber, address(src), address(dst), uint16(len(u)))
	u.SetChecksum(^u.CalculateChecksum(checksum.Checksum(data, sum)))
	return u
}

func tcpSYN(src, dst string, from, to uint16) []byte {
	s := header.TCP(make([]byte, header.TCPMinimumSize))
	s.Encode(&header.TCPFields{SrcPort: from, DstPort: to, SeqNum: 1, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 1000})
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, address(src), address(dst), uint16(len(s)))
	s.SetChecksum(^s.CalculateChecksum(sum))
	return s
}

func portOf(s string) uint16 {
	p, _ := strconv.ParseUint(s, 10, 16)
	return uint16(p)
}

func (g *fakeGuest) send(tb testing.TB, b []byte) {
	tb.Helper()
	if _, err := g.conn.WriteToUnix(b, g.to); err != nil {
		tb.Fatal(err)
	}
}

func (g *fakeGuest) forgeSYN(to, port string) {
	g.send(g.tb, frame(uint8(header.TCPProtocolNumber), vm.GuestIP, to, tcpSYN(vm.GuestIP, to, 4000, portOf(port))))
}

func (g *fakeGuest) forgeUDP(to, port string) {
	g.send(g.tb, frame(uint8(header.UDPProtocolNumber), vm.GuestIP, to, udpPacket(vm.GuestIP, to, 4000, portOf(port), []byte("forged"))))
}

// echoes sends one ICMP echo request and says whether it was answered.
func echoes(tb testing.TB, g *fakeGuest, to string, wait time.Duration) bool {
	tb.Helper()
	var wq waiter.Queue
	ep, err := g.stack.NewEndpoint(icmp.ProtocolNumber4, ipv4.ProtocolNumber, &wq)
	must(tb, err)
	defer ep.Close()
	entry, readable := waiter.NewChannelEntry(waiter.ReadableEvents)
	wq.EventRegister(&entry)
	defer wq.EventUnregister(&entry)
	must(tb, ep.Connect(g.full(to+":0")))
	req := header.ICMPv4(make([]byte, header.ICMPv4MinimumSize+8))
	req.SetType(header.ICMPv4Echo)
	if _, err := ep.Write(reader(req), tcpip.WriteOptions{}); err != nil {
		return false
	}
	select {
	case <-readable:
		return true
	case <-time.After(wait):
		return false
	}
}

// ping wants an answer, which also means that all frames before were handled.
func ping(tb testing.TB, g *fakeGuest, to string) {
	tb.Helper()
	if !echoes(tb, g, to, time.Minute) {
		tb.Errorf("%s does not answer", to)
	}
}

func TestPing(t *testing.T) {
	w := newWire(t)
	open(t, w, nil)
	g := boot(t, w, 1500)
	ping(t, g, vm.GatewayIP)
	for _, to := range []string{"203.0.113.1", "192.168.127.3"} {
		if echoes(t, g, to, 300*time.Millisecond) {
			t.Errorf("the gateway answered for %s", to)
		}
	}
}

// rawDHCP exchanges one DHCP message over the bare cable.
func rawDHCP(t *testing.T, c *net.UnixConn, h string, m *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	t.Helper()
	const bcast = "255.255.255.255"
	f := frame(uint8(header.UDPProtocolNumber), "0.0.0.0", bcast, udpPacket("0.0.0.0", bcast, 68, 67, m.ToBytes()))
	copy(f[:6], []byte{255, 255, 255, 255, 255, 255})
	if _, err := c.WriteToUnix(f, &net.UnixAddr{Name: h, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	for {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		const head = header.EthernetMinimumSize + header.IPv4MinimumSize + header.UDPMinimumSize
		if n > head && binary.BigEndian.Uint16(buf[12:14]) == uint16(ipv4.ProtocolNumber) {
			r, err := dhcpv4.FromBytes(buf[head:n])
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
	}
}

func TestDHCP(t *testing.T) {
	w := newWire(t)
	open(t, w, func(c *vmnet.Config) { c.MTU = 9000 })
	c := w.plug(t)
	t.Cleanup(func() { _ = c.Close() })
	hw, _ := net.ParseMAC(vm.GuestMAC)
	discover, err := dhcpv4.NewDiscovery(hw)
	if err != nil {
		t.Fatal(err)
	}
	offer := rawDHCP(t, c, w.h, discover)
	request, err := dhcpv4.NewRequestFromOffer(offer)
	if err != nil {
		t.Fatal(err)
	}
	ack := rawDHCP(t, c, w.h, request)
	for name, m := range map[string]*dhcpv4.DHCPv4{"offer": offer, "ack": ack} {
		mtu, _ := dhcpv4.GetUint16(dhcpv4.OptionInterfaceMTU, m.Options)
		got := []string{m.YourIPAddr.String(), m.Router()[0].String(), m.DNS()[0].String(), net.IP(m.SubnetMask()).String(), strconv.Itoa(int(mtu))}
		want := []string{vm.GuestIP, vm.GatewayIP, vm.GatewayIP, "255.255.255.0", "9000"}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: got %v, want %v", name, got, want)
				break
			}
		}
	}
	if offer.MessageType() != dhcpv4.MessageTypeOffer || ack.MessageType() != dhcpv4.MessageTypeAck {
		t.Errorf("got %s and %s", offer.MessageType(), ack.MessageType())
	}
}

// corpus is frames that are wrong in one way each, and some that are right.
func corpus() map[string][]byte {
	good := frame(uint8(header.UDPProtocolNumber), vm.GuestIP, vm.GatewayIP, udpPacket(vm.GuestIP, vm.GatewayIP, 4000, 53, []byte("no dns")))
	syn := frame(uint8(header.TCPProtocolNumber), vm.GuestIP, "203.0.113.1", tcpSYN(vm.GuestIP, "203.0.113.1", 4000, 80))
	change := func(b []byte, at int, v ...byte) []byte {
		c := append([]byte(nil), b...)
		copy(c[at:], v)
		return c
	}
	arp := make([]byte, 42)
	copy(arp, good[:12])
	binary.BigEndian.PutUint16(arp[12:], 0x0806)
	copy(arp[14:], []byte{0, 1, 8, 0, 6, 4, 0, 1})
	copy(arp[22:], good[6:12])
	copy(arp[28:], netip.MustParseAddr(vm.GuestIP).AsSlice())
	copy(arp[38:], netip.MustParseAddr(vm.GatewayIP).AsSlice())
	out := map[string][]byte{
		"udp": good, "syn": syn, "arp": arp,
		"empty": {}, "one byte": {1}, "mac only": good[:6],
		"foreign source mac": change(good, 6, 2, 2, 2, 2, 2, 2),
		"foreign source ip":  change(good, 26, 10, 0, 0, 1),
		"own gateway as ip":  change(good, 26, 192, 168, 127, 1),
		"multicast mac":      change(good, 0, 1, 0, 0x5e, 0, 0, 0xfb),
		"ip version 6":       change(good, 14, 0x65),
		"ip header of 0":     change(good, 14, 0x40),
		"ip header of 60":    change(good, 14, 0x4f),
		"total too long":     change(good, 16, 0xff, 0xff),
		"total of 0":         change(good, 16, 0, 0),
		"first fragment":     change(good, 20, 0x20, 0),
		"later fragment":     change(good, 20, 0x3f, 0xff),
		"udp length 0":       change(good, 38, 0, 0),
		"udp length 65535":   change(good, 38, 0xff, 0xff),
		"dhcp of no sense":   change(good, 36, 0, 67),
		"tcp offset 0":       change(syn, 46, 0x00),
		"tcp offset 60":      change(syn, 46, 0xf0),
		"icmp truncated":     change(good, 23, 1)[:35],
		"igmp":               change(good, 23, 2),
		"ipv6":               change(good, 12, 0x86, 0xdd),
		"arp short":          arp[:30],
		"arp foreign ip":     change(arp, 28, 10, 0, 0, 1),
		"arp odd sizes":      change(arp, 18, 255, 255),
		"huge":               append(append([]byte(nil), good...), make([]byte, 60_000)...),
	}
	for _, whole := range [][]byte{good, syn, arp} {
		for n := range whole {
			out["cut "+strconv.Itoa(n)+" of "+strconv.Itoa(len(whole))] = whole[:n]
		}
	}
	return out
}

func TestMalformedFrames(t *testing.T) {
	w := newWire(t)
	n := open(t, w, func(c *vmnet.Config) { c.Dialer = world(t, nil) })
	g := boot(t, w, 1500)
	g.serve(7, echo)
	for _, f := range corpus() {
		g.send(t, f)
	}
	ping(t, g, vm.GatewayIP)
	if got := n.Stats().Refused; got < 50 {
		t.Errorf("%d frames refused", got)
	}
	c, err := n.DialContext(within(t, time.Minute), "tcp", ":7")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask(t, c, "well")
}

// FuzzFrames sends what the fuzzer makes to a living network; a panic of any
// goroutine fails it, and so does a gateway that no longer answers.
func FuzzFrames(f *testing.F) {
	for _, b := range corpus() {
		f.Add(b)
	}
	w := newWire(f)
	open(f, w, func(c *vmnet.Config) { c.Dialer = world(f, nil) })
	g := boot(f, w, 1500)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 100_000 {
			return
		}
		g.send(t, b)
		if len(b) > 12 { // with addresses that are let in
			fixed := append([]byte(nil), b...)
			copy(fixed, linkAddr(vmnet.GatewayMAC))
			copy(fixed[6:], linkAddr(vm.GuestMAC))
			g.send(t, fixed)
		}
		ping(t, g, vm.GatewayIP)
	})
}
