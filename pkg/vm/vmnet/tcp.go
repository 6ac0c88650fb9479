package vmnet

import (
	"log/slog"
	"net"
	"sync/atomic"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// forwardTCP carries the guest's connections out through the Dialer. A
// connection that is refused, there or here, is reset at once.
func (n *Network) forwardTCP(s *stack.Stack) {
	slots := make(chan struct{}, n.cfg.MaxTCP)
	f := tcp.NewForwarder(s, forwardWindow, n.cfg.MaxTCP, func(r *tcp.ForwarderRequest) {
		if !n.begin() {
			r.Complete(false)
			return
		}
		defer n.wg.Done()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			n.carryTCP(r)
		default:
			r.Complete(true)
		}
	})
	s.SetTransportProtocolHandler(tcp.ProtocolNumber, f.HandlePacket)
}

// carryTCP dials first and answers the guest then, so that the guest sees a
// refusal as one.
func (n *Network) carryTCP(r *tcp.ForwarderRequest) {
	id := r.ID()
	to := toAddrPort(id.LocalAddress, id.LocalPort)
	out, err := n.dialer.Dial(n.ctx, "tcp", to)
	if err != nil {
		n.cfg.Logger.DebugContext(n.ctx, "tcp flow refused", slog.String("to", to.String()), slog.Any("error", err))
		r.Complete(true)
		return
	}
	var wq waiter.Queue
	ep, terr := r.CreateEndpoint(&wq)
	r.Complete(terr != nil)
	if terr != nil {
		outside{out, &n.sent}.abort()
		return
	}
	guest := &conn{TCPConn: gonet.NewTCPConn(&wq, ep), ep: ep}
	guest.keepAlive()
	ep.SocketOptions().SetSendBufferSize(forwardWindow, true)
	relay(n.ctx, guest, outside{out, &n.sent})
}

// outside is the far end of a guest's connection.
type outside struct {
	net.Conn

	sent *atomic.Int64
}

// Write counts what was sent.
func (o outside) Write(b []byte) (int, error) {
	n, err := o.Conn.Write(b)
	o.sent.Add(int64(max(n, 0)))
	return n, err
}

// CloseWrite ends one direction where the connection can do that.
func (o outside) CloseWrite() error {
	if h, ok := o.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return o.Close()
}

// abort resets the connection where it can do that.
func (o outside) abort() {
	if l, ok := o.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	_ = o.Close()
}
