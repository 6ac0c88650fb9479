package policy

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// interfacesAge is how long a list of interface addresses is believed. An
// address added in between is still caught by the kernel's own answer.
const interfacesAge = time.Second

// host knows which addresses are this host's, from two sources: the addresses
// (and directed broadcasts) of all interfaces, and the route that the kernel
// would take.
type host struct {
	mu   sync.Mutex
	own  map[netip.Addr]struct{}
	read time.Time
}

// owns says whether addr is this host's own.
func (h *host) owns(addr netip.Addr) (bool, error) {
	own, err := h.interfaces()
	if err != nil {
		return false, err
	}
	if _, ok := own[addr]; ok {
		return true, nil
	}
	return routesToSelf(addr), nil
}

func (h *host) interfaces() (map[netip.Addr]struct{}, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.own != nil && time.Since(h.read) < interfacesAge {
		return h.own, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	own := make(map[netip.Addr]struct{}, 2*len(addrs))
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		own[p.Addr().Unmap()] = struct{}{}
		if b, ok := broadcast(p); ok {
			own[b] = struct{}{}
			own[p.Masked().Addr()] = struct{}{} // the old form of broadcast
		}
	}
	h.own, h.read = own, time.Now()
	return own, nil
}

// broadcast is the directed broadcast address of an IPv4 network.
func broadcast(p netip.Prefix) (netip.Addr, bool) {
	if !p.Addr().Is4() || p.Bits() >= 31 {
		return netip.Addr{}, false
	}
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b), true
}

// routesToSelf asks the kernel by connecting a UDP socket, which sends nothing:
// a local route picks the destination itself as source, also for addresses
// that no interface lists (a routed local prefix, an address of this second).
func routesToSelf(addr netip.Addr) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 9)))
	if err != nil {
		return false // no route: the dial that follows says so
	}
	own := sameAddr(c.LocalAddr(), addr)
	_ = c.Close()
	return own
}

// sameAddr says whether a socket's own address is addr.
func sameAddr(local net.Addr, addr netip.Addr) bool {
	ap, err := netip.ParseAddrPort(local.String())
	return err == nil && ap.Addr().Unmap() == addr
}
