package vmnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containers/gvisor-tap-vsock/pkg/services/dhcp"
	"github.com/containers/gvisor-tap-vsock/pkg/tap"
	"github.com/containers/gvisor-tap-vsock/pkg/types"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmnet/dns"
	"github.com/deskfork/deskfork/pkg/vm/vmnet/policy"
)

// drainEvery is how often Close ends what has begun since it looked.
const drainEvery = 20 * time.Millisecond

// Network is the private network of one machine. New binds its end of the
// cable, Start brings it to life, Close ends it. All methods may be called from
// any goroutine.
type Network struct {
	cfg    Config
	dialer Dialer
	link   *link
	sent   atomic.Int64 // bytes of payload that went out through dialer

	// ctx ends with the network; everything that it started hangs on it.
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	stack  *stack.Stack  // nil until Start
	arp    chan struct{} // closed when the guest answers; nil while nobody asks
	closed bool
	wg     sync.WaitGroup // grows only while mu is held and closed is false
	done   chan struct{}  // closed when Close has done all
}

// New checks cfg and binds cfg.Remote at once, so that the hypervisor can be
// started after it. The file is 0600 and this process's; the caller may change
// its owner. It starts nothing.
func New(cfg Config) (*Network, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("check network config: %w", err)
	}
	l, err := newLink(cfg.Local, cfg.Remote)
	if err != nil {
		return nil, fmt.Errorf("bind network link: %w", err)
	}
	n := &Network{cfg: cfg, dialer: cfg.Dialer, link: l, done: make(chan struct{})}
	if cfg.Mode == vm.NetworkNone {
		n.dialer = nowhere{}
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

// Open is New and Start.
func Open(cfg Config) (*Network, error) {
	n, err := New(cfg)
	if err != nil {
		return nil, err
	}
	if err := n.Start(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Start makes the gateway and serves the guest until Close. The hypervisor may
// come before or after it. It is called once.
func (n *Network) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return fmt.Errorf("start network: %w", net.ErrClosed)
	}
	if n.stack != nil {
		return errors.New("start network: it was started before")
	}
	s, sw, err := newStack(n.cfg.MTU)
	if err != nil {
		return fmt.Errorf("start network: %w", err)
	}
	services, err := n.services(s)
	if err != nil {
		s.Destroy()
		return fmt.Errorf("start network: %w", err)
	}
	n.forwardTCP(s)
	n.forwardUDP(s)
	n.stack = s
	for name, run := range services {
		n.wg.Go(func() {
			if err := run(); err != nil && n.ctx.Err() == nil {
				n.cfg.Logger.ErrorContext(n.ctx, "network service ended", slog.String("service", name), slog.Any("error", err))
			}
		})
	}
	n.wg.Go(func() { n.serveLink(sw) })
	return nil
}

// serveLink carries frames from the cable to the switch.
func (n *Network) serveLink(sw *tap.Switch) {
	if err := sw.Accept(n.ctx, n.link, types.VfkitProtocol); err != nil && n.ctx.Err() == nil {
		n.cfg.Logger.ErrorContext(n.ctx, "network link ended", slog.Any("error", err))
	}
}

// services prepares what the gateway itself answers; each returned function
// ends when n.ctx does.
func (n *Network) services(s *stack.Stack) (map[string]func() error, error) {
	addr := tcpip.FullAddress{NIC: nic, Addr: toAddress(gatewayIP), Port: 53}
	pc, err := gonet.DialUDP(s, &addr, nil, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fmt.Errorf("bind dns: %w", err)
	}
	ln, err := gonet.ListenTCP(s, addr, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fmt.Errorf("listen for dns: %w", err)
	}
	resolver, err := dns.New(dns.Config{Upstreams: n.cfg.Upstreams, Refuse: n.cfg.Mode == vm.NetworkNone, Logger: n.cfg.Logger})
	if err != nil {
		return nil, err
	}
	leases, err := newDHCP(s, n.cfg.MTU)
	if err != nil {
		return nil, err
	}
	return map[string]func() error{
		"dns": func() error { return resolver.Run(n.ctx, pc, ln) },
		"dhcp": func() error {
			stop := context.AfterFunc(n.ctx, func() { _ = leases.Underlying.Close() })
			defer stop()
			return leases.Serve()
		},
	}, nil
}

// newDHCP leases the one address of the guest.
func newDHCP(s *stack.Stack, mtu int) (*dhcp.Server, error) {
	_, subnet, err := net.ParseCIDR(vm.Subnet)
	if err != nil {
		return nil, err
	}
	pool := tap.NewIPPool(subnet)
	pool.Reserve(net.ParseIP(vm.GatewayIP), GatewayMAC)
	pool.Reserve(net.ParseIP(vm.GuestIP), vm.GuestMAC)
	srv, err := dhcp.New(&types.Configuration{Subnet: vm.Subnet, GatewayIP: vm.GatewayIP, MTU: mtu}, s, pool)
	if err != nil {
		return nil, fmt.Errorf("bind dhcp: %w", err)
	}
	return srv, nil
}

// Egress is how many bytes of payload the guest has sent to the world since New.
func (n *Network) Egress() int64 { return n.sent.Load() }

// Stats counts frames since New.
type Stats struct {
	Dropped uint64 // to the guest, which was not there or not taking any
	Refused uint64 // from the guest, with addresses or a form that it may not use
}

// Stats never blocks.
func (n *Network) Stats() Stats {
	return Stats{Dropped: n.link.dropped.Load(), Refused: n.link.refused.Load()}
}

// begin lets Close wait for work that calls n.wg.Done when it ends; false when
// the network is closed already.
func (n *Network) begin() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.wg.Add(1)
	}
	return !n.closed
}

// Close ends every flow and connection of the guest, the services and the link,
// removes the socket file and returns when all goroutines have ended. It is
// idempotent. It takes nothing from the hypervisor: a later Network on the same
// paths is reached by the same guest.
func (n *Network) Close() error {
	n.mu.Lock()
	first := !n.closed
	n.closed = true
	s := n.stack
	n.mu.Unlock()
	if !first {
		<-n.done
		return nil
	}
	defer close(n.done)
	n.cancel()
	err := n.link.Close()
	n.drain(s)
	if s != nil {
		s.Destroy()
	}
	if err != nil {
		return fmt.Errorf("close network link: %w", err)
	}
	return nil
}

// drain waits for all goroutines. Some wait for an endpoint, which may have been
// made after the last look (a handshake in progress), so it looks again.
func (n *Network) drain(s *stack.Stack) {
	ended := make(chan struct{})
	go func() {
		n.wg.Wait()
		close(ended)
	}()
	again := time.NewTicker(drainEvery)
	defer again.Stop()
	for {
		if s != nil {
			s.Close()
		}
		select {
		case <-ended:
			return
		case <-again.C:
		}
	}
}

// nowhere is the Dialer of a network without egress.
type nowhere struct{}

// Check refuses.
func (nowhere) Check(addr netip.Addr) error {
	return &policy.DeniedError{Addr: addr, Reason: "this desktop has no egress"}
}

// Dial refuses.
func (d nowhere) Dial(_ context.Context, _ string, to netip.AddrPort) (net.Conn, error) {
	return nil, d.Check(to.Addr())
}

var (
	_ Dialer = nowhere{}
	_ Dialer = (*policy.Dialer)(nil)
)
