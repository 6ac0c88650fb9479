package vmnet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"
)

const (
	// dnsIdle ends flows to port 53: one question, one answer.
	dnsIdle = 10 * time.Second
	// maxDatagram is the largest UDP payload, in bytes.
	maxDatagram = 65507
)

// forwardUDP carries the guest's datagrams out through the Dialer, one
// connected socket a flow. What is refused is answered with "port unreachable".
func (n *Network) forwardUDP(s *stack.Stack) {
	slots := make(chan struct{}, n.cfg.MaxUDP)
	f := udp.NewForwarder(s, func(r *udp.ForwarderRequest) {
		release := sync.OnceFunc(func() { <-slots })
		if !n.carryUDP(r, release) {
			release()
		}
	})
	s.SetTransportProtocolHandler(udp.ProtocolNumber, func(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
		to := toAddrPort(id.LocalAddress, id.LocalPort)
		if to.Addr().IsMulticast() || to.Addr() == broadcastIP || n.ctx.Err() != nil {
			return true // not answered: nobody asks the crowd to be quiet
		}
		if err := n.dialer.Check(to.Addr()); err != nil {
			n.cfg.Logger.DebugContext(n.ctx, "udp flow refused", slog.String("to", to.String()), slog.Any("error", err))
			return false
		}
		select {
		case slots <- struct{}{}:
			return f.HandlePacket(id, pkt)
		default:
			return true // dropped: the table is full
		}
	})
}

// carryUDP makes the flow in the goroutine that brought its first datagram, so
// that the second finds it; false when there is none.
func (n *Network) carryUDP(r *udp.ForwarderRequest, release func()) bool {
	id := r.ID()
	to := toAddrPort(id.LocalAddress, id.LocalPort)
	out, err := n.dialer.Dial(n.ctx, "udp", to)
	if err != nil {
		n.cfg.Logger.DebugContext(n.ctx, "udp flow refused", slog.String("to", to.String()), slog.Any("error", err))
		return false
	}
	var wq waiter.Queue
	ep, terr := r.CreateEndpoint(&wq)
	if terr != nil {
		n.cfg.Logger.DebugContext(n.ctx, "udp flow not made", slog.String("to", to.String()), slog.Any("error", errno(terr)))
		_ = out.Close()
		return false
	}
	idle := n.cfg.UDPIdle
	if to.Port() == 53 {
		idle = min(idle, dnsIdle)
	}
	fl := &flow{guest: gonet.NewUDPConn(&wq, ep), out: outside{out, &n.sent}, idle: idle}
	if !n.begin() {
		fl.close()
		return false
	}
	go func() {
		defer n.wg.Done()
		defer release()
		fl.run(n.ctx)
	}()
	return true
}

// flow is one pair of UDP endpoints.
type flow struct {
	guest, out net.Conn
	idle       time.Duration
	last       atomic.Int64 // when a datagram passed, in Unix nanoseconds
}

func (f *flow) close() {
	_ = f.guest.Close()
	_ = f.out.Close()
}

// run ends when nothing passed in either direction for the idle time, when one
// end broke, or with ctx.
func (f *flow) run(ctx context.Context) {
	f.last.Store(time.Now().UnixNano())
	stop := context.AfterFunc(ctx, f.close)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() {
		defer f.close()
		f.pass(f.guest, f.out)
	})
	f.pass(f.out, f.guest)
	f.close()
	wg.Wait()
}

// pass copies datagrams one way. A datagram that cannot be sent is lost, as
// datagrams are.
func (f *flow) pass(to, from net.Conn) {
	buf := make([]byte, maxDatagram)
	for {
		left := f.idle - time.Since(time.Unix(0, f.last.Load()))
		if left <= 0 {
			return
		}
		if err := from.SetReadDeadline(time.Now().Add(left)); err != nil {
			return
		}
		n, err := from.Read(buf)
		if isTimeout(err) {
			continue // the other direction may have been busy
		}
		if err != nil {
			return
		}
		f.last.Store(time.Now().UnixNano())
		_, _ = to.Write(buf[:n])
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
