package vmnet

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"time"

	"github.com/containers/gvisor-tap-vsock/pkg/tap"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"github.com/deskfork/deskfork/pkg/vm"
)

// nic is the gateway's only interface.
const nic tcpip.NICID = 1

const (
	// tcpBuffer is the size of each buffer of a connection that the host dials,
	// in bytes: a dozen frames of 64 KiB in flight. It does not grow, so what a
	// guest can pin is known.
	tcpBuffer = 1 << 20
	// forwardWindow bounds what one forwarded connection of the guest holds here
	// when its peer is slow, in bytes.
	forwardWindow = 256 << 10
	// timeWait is short: nothing old can be on a cable that keeps order.
	timeWait = 2 * time.Second
	// maxRTO and maxRetries let a connection outlive a paused guest by a quarter
	// of an hour and go on within a second after it.
	maxRTO     = time.Second
	maxRetries = 900
	// arpRetry is short because a guest that boots is asked until it answers. It
	// is asked for ever: the stack's report of a failure reads the neighbour's
	// address without its lock, which races with an answer that comes late.
	arpRetry  = 200 * time.Millisecond
	arpProbes = math.MaxUint32
)

// newStack makes the gateway: a TCP/IP stack on a switch with one cable.
func newStack(mtu int) (*stack.Stack, *tap.Switch, error) {
	ep, err := tap.NewLinkEndpoint(false, uint32(mtu), GatewayMAC, vm.GatewayIP, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("make link endpoint: %w", err)
	}
	sw := tap.NewSwitch(false)
	ep.Connect(sw)
	sw.Connect(ep)
	s := stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
	})
	if err := configure(s, ep); err != nil {
		s.Destroy()
		return nil, nil, fmt.Errorf("configure gateway: %s", err)
	}
	return s, sw, nil
}

func configure(s *stack.Stack, ep stack.LinkEndpoint) tcpip.Error {
	if err := tuneTCP(s); err != nil {
		return err
	}
	if err := s.CreateNIC(nic, ep); err != nil {
		return err
	}
	if err := s.AddProtocolAddress(nic, tcpip.ProtocolAddress{
		Protocol:          ipv4.ProtocolNumber,
		AddressWithPrefix: toAddress(gatewayIP).WithPrefix(),
	}, stack.AddressProperties{}); err != nil {
		return err
	}
	nud := stack.DefaultNUDConfigurations()
	nud.RetransmitTimer = arpRetry
	nud.MaxMulticastProbes = arpProbes
	if err := s.SetNUDConfigurations(nic, ipv4.ProtocolNumber, nud); err != nil {
		return err
	}
	// The gateway takes packets for every address and answers in its name.
	if err := s.SetPromiscuousMode(nic, true); err != nil {
		return err
	}
	if err := s.SetSpoofing(nic, true); err != nil {
		return err
	}
	private := netip.MustParsePrefix(vm.Subnet)
	subnet, err := tcpip.NewSubnet(toAddress(private.Addr()), tcpip.MaskFromBytes(net.CIDRMask(private.Bits(), 32)))
	if err != nil {
		return &tcpip.ErrBadAddress{}
	}
	s.SetRouteTable([]tcpip.Route{{Destination: subnet, NIC: nic}})
	return nil
}

// tuneTCP sets what every endpoint of the stack starts with.
func tuneTCP(s *stack.Stack) tcpip.Error {
	sack, moderate, delay := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(false), tcpip.TCPDelayEnabled(false)
	wait, rto, retries := tcpip.TCPTimeWaitTimeoutOption(timeWait), tcpip.TCPMaxRTOOption(maxRTO), tcpip.TCPMaxRetriesOption(maxRetries)
	for _, opt := range []tcpip.SettableTransportProtocolOption{
		&sack, &moderate, &delay, &wait, &rto, &retries,
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: tcpBuffer, Max: tcpBuffer},
		&tcpip.TCPSendBufferSizeRangeOption{Min: tcp.MinBufferSize, Default: tcpBuffer, Max: tcpBuffer},
	} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, opt); err != nil {
			return err
		}
	}
	return nil
}

func toAddress(a netip.Addr) tcpip.Address { return tcpip.AddrFrom4(a.As4()) }

func toAddrPort(a tcpip.Address, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(a.AsSlice())
	return netip.AddrPortFrom(addr, port)
}
