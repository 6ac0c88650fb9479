package policy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// DialFunc connects to a literal address over "tcp" or "udp".
type DialFunc func(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)

const defaultTimeout = 10 * time.Second

// Dialer dials only what its policy allows.
type Dialer struct {
	cfg  Config
	own  func(netip.Addr) (bool, error)
	dial DialFunc
}

// New makes a Dialer.
func New(cfg Config) (*Dialer, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("check egress policy: %w", err)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	d := &Dialer{cfg: cfg, own: cfg.Own, dial: cfg.Dial}
	if d.own == nil {
		d.own = new(host).owns
	}
	if d.dial == nil {
		d.dial = dialKernel
	}
	return d, nil
}

// Dial checks the address and connects to exactly that address. The error
// matches ErrDenied when the policy refuses, else it is the dial's own. It ends
// at the latest when ctx does or the configured timeout has passed.
func (d *Dialer) Dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	addr := to.Addr().Unmap()
	if err := d.Check(addr); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timeout)
	defer cancel()
	return d.dial(ctx, network, netip.AddrPortFrom(addr, to.Port()))
}

// dialKernel connects, then looks at the connection once more: a socket whose
// two ends have one address has reached this host itself.
func dialKernel(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, to.String())
	if err != nil {
		return nil, err
	}
	if sameAddr(c.LocalAddr(), to.Addr()) {
		_ = c.Close()
		return nil, &DeniedError{to.Addr(), "address of this host"}
	}
	return c, nil
}
