package vmnet

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Sizes of headers in bytes, and the fields of them that admit looks at.
const (
	ethernetSize = 14
	arpSize      = 28
	ipv4Size     = 20
	udpSize      = 8

	etherIPv4 = 0x0800
	etherARP  = 0x0806

	protoICMP = 1
	protoUDP  = 17

	icmpEcho = 8

	portDHCP = 67
)

// The addresses of every private network; read only.
var (
	guestMAC   = mac(vm.GuestMAC)
	gatewayMAC = mac(GatewayMAC)
	everyMAC   = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

	guestIP   = netip.MustParseAddr(vm.GuestIP)
	gatewayIP = netip.MustParseAddr(vm.GatewayIP)

	broadcastIP = netip.AddrFrom4([4]byte{0xff, 0xff, 0xff, 0xff})
)

// mac parses a constant; a wrong one yields zeros and fails every test.
func mac(s string) (out [6]byte) {
	hw, _ := net.ParseMAC(s)
	copy(out[:], hw)
	return out
}

// admit says whether a frame may go to the switch: one that a guest with the
// addresses it was given would send. It keeps forged sources out of the tables
// of the switch and of the DHCP server, and echo requests for others away from
// a gateway that would answer them as if they had got there.
func admit(frame []byte) bool {
	if len(frame) < ethernetSize {
		return false
	}
	dst, src := [6]byte(frame[0:6]), [6]byte(frame[6:12])
	if src != guestMAC || dst != gatewayMAC && dst != everyMAC {
		return false
	}
	body := frame[ethernetSize:]
	switch binary.BigEndian.Uint16(frame[12:14]) {
	case etherARP:
		return admitARP(body)
	case etherIPv4:
		return admitIPv4(body)
	}
	return false
}

// admitARP lets in what comes from the guest's address or from none yet.
func admitARP(b []byte) bool {
	if len(b) < arpSize {
		return false
	}
	sender := netip.AddrFrom4([4]byte(b[14:18]))
	return [6]byte(b[8:14]) == guestMAC && (sender == guestIP || sender.IsUnspecified())
}

// admitIPv4 lets in what comes from the guest's address, and DHCP from none yet.
func admitIPv4(b []byte) bool {
	if len(b) < ipv4Size || b[0]>>4 != 4 {
		return false
	}
	header, total := int(b[0]&0x0f)*4, int(binary.BigEndian.Uint16(b[2:4]))
	if header < ipv4Size || total < header || total > len(b) {
		return false
	}
	src, dst := netip.AddrFrom4([4]byte(b[12:16])), netip.AddrFrom4([4]byte(b[16:20]))
	fragment, payload := binary.BigEndian.Uint16(b[6:8]), b[header:total]
	if fragment&0x1fff != 0 {
		return src == guestIP // not the first: it means nothing without it
	}
	switch b[9] {
	case protoICMP:
		return src == guestIP && len(payload) > 0 && (payload[0] != icmpEcho || dst == gatewayIP)
	case protoUDP:
		return admitUDP(payload, src, fragment&0x2000 == 0)
	}
	return src == guestIP
}

// admitUDP looks at the first fragment; whole says that it is the only one. A
// DHCP message must be whole.
func admitUDP(b []byte, src netip.Addr, whole bool) bool {
	if len(b) < udpSize {
		return false
	}
	if binary.BigEndian.Uint16(b[2:4]) != portDHCP {
		return src == guestIP
	}
	return whole && (src == guestIP || src.IsUnspecified()) && admitDHCP(b[udpSize:])
}

// admitDHCP lets in what the DHCP server answers without complaint, for the
// guest's own address.
func admitDHCP(b []byte) bool {
	m, err := dhcpv4.FromBytes(b)
	if err != nil || m.OpCode != dhcpv4.OpcodeBootRequest {
		return false
	}
	t := m.MessageType()
	return len(m.ClientHWAddr) == 6 && [6]byte(m.ClientHWAddr) == guestMAC &&
		(t == dhcpv4.MessageTypeDiscover || t == dhcpv4.MessageTypeRequest)
}
