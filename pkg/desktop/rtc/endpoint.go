package rtc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/pion/ice/v4"
	"github.com/pion/webrtc/v4"
)

// Config says how viewers reach an Endpoint.
type Config struct {
	// Listen is the host:port for UDP and TCP alike; port 0 takes a free one.
	Listen string
	// Public are the addresses of this host as viewers see it, when they are not
	// its own: behind a translation that keeps the port.
	Public []netip.Addr
	// STUN are URLs of servers that tell a viewer its own address.
	STUN []string
	TURN []TURN
	// Logger hears of viewers at level debug. Default: none.
	Logger *slog.Logger
}

// Sizes of buffers, in bytes and packets: a key goes out at once.
const (
	socketBuffer = 4 << 20
	tcpQueue     = 512
)

// Endpoint is the sockets that all viewers of all desktops share.
type Endpoint struct {
	cfg      Config
	settings webrtc.SettingEngine
	udp      ice.UDPMux
	tcp      ice.TCPMux
	addr     netip.AddrPort

	mu    sync.Mutex
	peers map[string]*Peer // guarded by mu; nil: closed
}

// Open opens the sockets. Close closes them.
func Open(ctx context.Context, cfg Config) (*Endpoint, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	packets, listener, err := listen(ctx, cfg.Listen)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{cfg: cfg, peers: map[string]*Peer{}}
	if u, ok := packets.LocalAddr().(*net.UDPAddr); ok {
		e.addr = u.AddrPort()
	}
	e.udp = webrtc.NewICEUDPMux(nil, packets)
	e.tcp = webrtc.NewICETCPMux(nil, listener, tcpQueue)
	if err := e.configure(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// listen takes the same port for UDP and TCP.
func listen(ctx context.Context, address string) (net.PacketConn, net.Listener, error) {
	var lc net.ListenConfig
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, nil, fmt.Errorf("listen for viewers on %q: %w", address, err)
	}
	for tries := 10; ; tries-- {
		packets, err := lc.ListenPacket(ctx, "udp", address)
		if err != nil {
			return nil, nil, fmt.Errorf("listen for viewers: %w", err)
		}
		if u, ok := packets.(*net.UDPConn); ok {
			// The kernel gives what it may.
			_, _ = u.SetReadBuffer(socketBuffer), u.SetWriteBuffer(socketBuffer)
		}
		_, chosen, err := net.SplitHostPort(packets.LocalAddr().String())
		if err != nil {
			return nil, nil, errors.Join(err, packets.Close())
		}
		listener, err := lc.Listen(ctx, "tcp", net.JoinHostPort(host, chosen))
		if err == nil {
			return packets, listener, nil
		}
		err = errors.Join(fmt.Errorf("listen for viewers: %w", err), packets.Close())
		if port != "0" || tries == 0 {
			return nil, nil, err
		}
	}
}

func (e *Endpoint) configure() error {
	s := &e.settings
	s.SetICEUDPMux(e.udp)
	s.SetICETCPMux(e.tcp)
	s.SetNetworkTypes([]webrtc.NetworkType{
		webrtc.NetworkTypeUDP4, webrtc.NetworkTypeUDP6, webrtc.NetworkTypeTCP4, webrtc.NetworkTypeTCP6,
	})
	s.SetICEMulticastDNSMode(ice.MulticastDNSModeDisabled) // names of viewers are learned from their checks
	s.SetIncludeLoopbackCandidate(e.addr.Addr().IsLoopback())
	s.DisableActiveTCP(true)
	s.SetICETimeouts(5*time.Second, 15*time.Second, 2*time.Second)
	if len(e.cfg.Public) == 0 {
		return nil
	}
	var external []string
	for _, a := range e.cfg.Public {
		external = append(external, a.String())
	}
	return s.SetICEAddressRewriteRules(webrtc.ICEAddressRewriteRule{
		External: external, AsCandidateType: webrtc.ICECandidateTypeHost, Mode: webrtc.ICEAddressRewriteAppend,
	})
}

// Addr is where the endpoint listens, on UDP and TCP.
func (e *Endpoint) Addr() netip.AddrPort { return e.addr }

// Servers are what a viewer may use to find a way here, with credentials of its
// own.
func (e *Endpoint) Servers(viewer string) []Server {
	var list []Server
	for _, u := range e.cfg.STUN {
		list = append(list, Server{URL: u})
	}
	for _, t := range e.cfg.TURN {
		list = append(list, t.servers(viewer, time.Now())...)
	}
	return list
}

// Peer finds a viewer by its id.
func (e *Endpoint) Peer(id string) (*Peer, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := e.peers[id]
	return p, ok
}

// join gives a viewer an id.
func (e *Endpoint) join(p *Peer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.peers == nil {
		return errors.New("watch: the endpoint is closed")
	}
	e.peers[p.id] = p
	return nil
}

func (e *Endpoint) leave(p *Peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.peers, p.id)
}

// Close ends all viewers and closes the sockets.
func (e *Endpoint) Close() error {
	e.mu.Lock()
	peers := e.peers
	e.peers = nil
	e.mu.Unlock()
	for _, p := range peers {
		p.Close()
	}
	return errors.Join(e.udp.Close(), e.tcp.Close())
}

// NewID makes the id of a viewer.
func NewID() string { return rand.Text() }
