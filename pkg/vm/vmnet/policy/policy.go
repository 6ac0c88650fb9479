// Package policy decides which addresses a guest's traffic may leave for, and
// dials the ones that it may. The decision is made on the address that is
// dialled, never on a name, so a name that resolves differently the second
// time gains nothing.
//
// Closed for good, whatever the configuration says: this host (loopback and
// every address of every interface, read again as they change), link-local and
// metadata addresses, multicast, broadcast, reserved ranges, the private
// network of the desktops, and IPv6 forms that wrap an IPv4 address which is
// closed itself. Closed by default: private ranges (RFC 1918, shared 100.64/10,
// unique-local), because a host's LAN holds services that trust their
// neighbours. An operator opens all of them with AllowPrivate or some with
// Allow, and closes more with Deny.
package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// ErrDenied is matched by every refusal of a policy.
var ErrDenied = errors.New("address denied by egress policy")

// DeniedError says which address was refused and why.
type DeniedError struct {
	Addr   netip.Addr
	Reason string // e.g. "loopback", "address of this host"
}

// Error names the address and the rule.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s: %s (%s)", ErrDenied, e.Addr, e.Reason)
}

// Is makes errors.Is(err, ErrDenied) true.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

// Config of a Dialer. The zero value opens the public internet and nothing else.
type Config struct {
	// AllowPrivate opens RFC 1918, 100.64/10 and unique-local addresses.
	AllowPrivate bool
	// Allow opens parts of the private ranges; it opens nothing that is closed
	// for good.
	Allow []netip.Prefix
	// Deny closes more; it wins over Allow and AllowPrivate. Put the public
	// address of a host behind NAT here: the host itself cannot know it.
	Deny []netip.Prefix
	// Own says whether an address is one of this host's. Nil: ask the kernel.
	Own func(netip.Addr) (bool, error)
	// Dial connects to an address that was allowed. Nil: the kernel.
	Dial DialFunc
	// Timeout bounds one dial; 0 means 10 s.
	Timeout time.Duration
}

func (c Config) validate() error {
	var errs []error
	for _, p := range slices.Concat(c.Allow, c.Deny) {
		if !p.IsValid() {
			errs = append(errs, errors.New("egress policy holds an invalid prefix; write it like 10.1.0.0/16"))
		}
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("dial timeout %s is negative", c.Timeout))
	}
	return errors.Join(errs...)
}

// Check returns nil when traffic may leave for addr, a *DeniedError when not,
// and another error when the host's own addresses cannot be found out (then
// nothing may leave). It may be called from any goroutine.
func (d *Dialer) Check(addr netip.Addr) error {
	if addr.Zone() != "" {
		return &DeniedError{addr, "link-local"}
	}
	addr = addr.Unmap()
	if inner, ok := embedded(addr); ok {
		if err := d.Check(inner); err != nil {
			return &DeniedError{addr, "wraps " + inner.String()}
		}
	}
	if why := d.closed(addr); why != "" {
		return &DeniedError{addr, why}
	}
	own, err := d.own(addr)
	if err != nil {
		return fmt.Errorf("find out whether %s belongs to this host: %w", addr, err)
	}
	if own {
		return &DeniedError{addr, "address of this host"}
	}
	return nil
}

// closed applies the rules that need no look at the host.
func (d *Dialer) closed(addr netip.Addr) string {
	if why := closedForGood(addr); why != "" {
		return why
	}
	if contains(d.cfg.Deny, addr) {
		return "closed by the operator"
	}
	if why := private(addr); why != "" && !d.cfg.AllowPrivate && !contains(d.cfg.Allow, addr) {
		return why
	}
	return ""
}

func contains(in []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(in, func(p netip.Prefix) bool { return p.Contains(addr) })
}
