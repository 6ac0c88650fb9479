package vmnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmnet/policy"
)

// GatewayMAC is the Ethernet address of the gateway. The guest's is vm.GuestMAC.
const GatewayMAC = "5a:94:ef:e4:0c:dd"

// Defaults of Config.
const (
	DefaultMTU     = vm.NetworkMTU
	DefaultMaxTCP  = 512
	DefaultMaxUDP  = 512
	DefaultUDPIdle = 2 * time.Minute

	minMTU = 576
	// maxPath is what a unix socket's address holds, in bytes.
	maxPath = 107
)

// Dialer decides and dials for the guest; policy.Dialer is the real one.
type Dialer interface {
	// Check returns nil when the guest may reach addr. It is asked before a UDP
	// flow is made, from the goroutine that reads the cable: it must be quick.
	Check(addr netip.Addr) error
	// Dial connects to exactly that address, over "tcp" or "udp", after the same
	// check. It bounds its own time.
	Dial(ctx context.Context, network string, to netip.AddrPort) (net.Conn, error)
}

// Config of a Network.
type Config struct {
	// Local is the path that the hypervisor binds, Remote the one that we bind
	// (QEMU's local.path and remote.path). Both are required; at most 107 bytes.
	Local, Remote string
	// Mode: vm.NetworkOpen or vm.NetworkNone. Required.
	Mode vm.NetworkMode
	// Dialer carries the guest's egress; it is not used under vm.NetworkNone.
	// Nil: policy.New of the zero policy.Config.
	Dialer Dialer
	// Upstreams lists the DNS resolvers as host:port. Nil: those of
	// /etc/resolv.conf, read again for every query.
	Upstreams func() ([]string, error)
	// MTU of the cable, told to the guest by DHCP; 576 to 65520. 0 means
	// DefaultMTU. A guest with a smaller one is served too; frames of 64 KiB are
	// what makes file copies fast.
	MTU int
	// MaxTCP and MaxUDP bound the guest's flows, dials included. TCP beyond is
	// reset, UDP dropped. A flow holds up to 0.6 MiB (TCP) or 0.2 MiB (UDP) when
	// its receiver is slow. 0 means DefaultMaxTCP and DefaultMaxUDP.
	MaxTCP, MaxUDP int
	// UDPIdle ends a UDP flow that was silent for so long; DNS flows (port 53)
	// end after 10 s at the latest. 0 means DefaultUDPIdle.
	UDPIdle time.Duration
	// Logger gets a debug line for every refused flow and an error when a
	// service breaks. Nil discards.
	Logger *slog.Logger
}

// withDefaults validates and completes a Config.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for name, path := range map[string]string{"local": c.Local, "remote": c.Remote} {
		check(path != "", "%s path is empty", name)
		check(len(path) <= maxPath, "%s path has %d bytes, a unix socket holds %d: use a shorter runtime directory", name, len(path), maxPath)
	}
	check(c.Local == "" || c.Local != c.Remote, "local and remote path are the same")
	check(c.Mode == vm.NetworkOpen || c.Mode == vm.NetworkNone, "network mode %q: want open or none", c.Mode)
	check(c.MTU == 0 || c.MTU >= minMTU && c.MTU <= DefaultMTU, "mtu %d: want %d to %d", c.MTU, minMTU, DefaultMTU)
	check(c.MaxTCP >= 0 && c.MaxUDP >= 0 && c.UDPIdle >= 0, "limits must not be negative")
	c.MTU = cmp.Or(c.MTU, DefaultMTU)
	c.MaxTCP = cmp.Or(c.MaxTCP, DefaultMaxTCP)
	c.MaxUDP = cmp.Or(c.MaxUDP, DefaultMaxUDP)
	c.UDPIdle = cmp.Or(c.UDPIdle, DefaultUDPIdle)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Dialer == nil {
		d, err := policy.New(policy.Config{})
		if err != nil {
			errs = append(errs, err)
		}
		c.Dialer = d
	}
	return c, errors.Join(errs...)
}
