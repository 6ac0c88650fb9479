package vmnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"

	"github.com/deskfork/deskfork/pkg/vm"
)

// DialContext opens a TCP connection to the guest: network is "tcp" or "tcp4",
// address is vm.GuestIP and a port, or ":port" for short. A guest that does not
// answer yet is waited for until ctx ends, so ctx needs a deadline. A port where
// nobody listens gives syscall.ECONNREFUSED at once. The connection sends small
// writes at once; it has CloseWrite for a half-close.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := guestAddr(network, address)
	if err != nil {
		return nil, fmt.Errorf("dial guest %s: %w", address, err)
	}
	n.mu.Lock()
	s, closed := n.stack, n.closed
	n.mu.Unlock()
	if closed || s == nil {
		return nil, fmt.Errorf("dial guest %s: network is not running: %w", address, net.ErrClosed)
	}
	// A network that ends takes its dials with it.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	//nolint:contextcheck // the network's own context, besides the caller's
	stop := context.AfterFunc(n.ctx, func() { cancel(net.ErrClosed) })
	defer stop()
	for {
		if err := n.awaitGuest(ctx, s); err != nil {
			return nil, fmt.Errorf("dial guest %s: wait for it to answer: %w", address, err)
		}
		c, err := connect(ctx, s, to)
		if err == nil {
			return c, nil
		}
		// It was there and went away again, as in a reboot.
		if !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ETIMEDOUT) {
			return nil, fmt.Errorf("dial guest %s: %w", address, err)
		}
	}
}

func guestAddr(network, address string) (netip.AddrPort, error) {
	if network != "tcp" && network != "tcp4" {
		return netip.AddrPort{}, net.UnknownNetworkError(network)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	p, err := strconv.ParseUint(port, 10, 16)
	if err != nil || p == 0 {
		return netip.AddrPort{}, fmt.Errorf("port %q: want 1 to 65535", port)
	}
	if host != "" && host != vm.GuestIP {
		return netip.AddrPort{}, fmt.Errorf("the only other machine on this network is %s", vm.GuestIP)
	}
	return netip.AddrPortFrom(guestIP, uint16(p)), nil
}

// awaitGuest returns when the guest's kernel answers ARP. All callers wait for
// one question, so that those who give up leave nothing behind in the stack.
func (n *Network) awaitGuest(ctx context.Context, s *stack.Stack) error {
	n.mu.Lock()
	asked := n.arp
	mine := asked == nil
	if mine {
		asked = make(chan struct{})
		n.arp = asked
	}
	n.mu.Unlock()
	if mine {
		// The answer may come within the call.
		err := s.GetLinkAddress(nic, toAddress(guestIP), toAddress(gatewayIP), ipv4.ProtocolNumber,
			func(stack.LinkResolutionResult) {
				n.mu.Lock()
				n.arp = nil
				n.mu.Unlock()
				close(asked)
			})
		if _, wait := err.(*tcpip.ErrWouldBlock); err != nil && !wait {
			return errno(err) // the stack has no such interface: it is our fault
		}
	}
	select {
	case <-asked:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// connect is one attempt, bounded by the stack's own timeout and by ctx.
func connect(ctx context.Context, s *stack.Stack, to netip.AddrPort) (net.Conn, error) {
	var wq waiter.Queue
	ep, terr := s.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, &wq)
	if terr != nil {
		return nil, errno(terr)
	}
	entry, connected := waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventErr | waiter.EventHUp)
	wq.EventRegister(&entry)
	defer wq.EventUnregister(&entry)
	terr = ep.Connect(tcpip.FullAddress{NIC: nic, Addr: toAddress(to.Addr()), Port: to.Port()})
	if _, started := terr.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ctx.Done():
			ep.Abort()
			return nil, context.Cause(ctx)
		case <-connected:
			terr = ep.LastError()
		}
	}
	if terr != nil {
		ep.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: errno(terr)}
	}
	return &conn{TCPConn: gonet.NewTCPConn(&wq, ep), ep: ep}, nil
}

// errno turns a stack's error into the one that the same failure has on a
// kernel socket, so that callers can branch on it.
func errno(err tcpip.Error) error {
	switch err.(type) {
	case *tcpip.ErrConnectionRefused:
		return syscall.ECONNREFUSED
	case *tcpip.ErrConnectionReset:
		return syscall.ECONNRESET
	case *tcpip.ErrConnectionAborted:
		return syscall.ECONNABORTED
	case *tcpip.ErrHostUnreachable, *tcpip.ErrHostDown:
		return syscall.EHOSTUNREACH
	case *tcpip.ErrNetworkUnreachable:
		return syscall.ENETUNREACH
	case *tcpip.ErrTimeout:
		return syscall.ETIMEDOUT
	case *tcpip.ErrNoPortAvailable:
		return syscall.EADDRNOTAVAIL
	}
	return errors.New(err.String())
}
