package policy

import (
	"net/netip"

	"github.com/deskfork/deskfork/pkg/vm"
)

// rule closes a range and says why.
type rule struct {
	prefix netip.Prefix
	why    string
}

// forGood lists what no configuration opens, in the order of the answer given.
func forGood() []rule {
	p := netip.MustParsePrefix
	return []rule{
		{p("127.0.0.0/8"), "loopback"},
		{p("::1/128"), "loopback"},
		{p("0.0.0.0/8"), "this host on this network"},
		{p("::/96"), "unspecified or IPv4-compatible"},
		{p("169.254.0.0/16"), "link-local and metadata"},
		{p("fe80::/10"), "link-local"},
		{p("fec0::/10"), "site-local"},
		{p("224.0.0.0/4"), "multicast"},
		{p("ff00::/8"), "multicast"},
		{p("240.0.0.0/4"), "reserved or broadcast"},
		{p(vm.Subnet), "private network of the desktops"},
		// Metadata and control services of clouds that lie outside link-local.
		{p("100.100.100.200/32"), "metadata"}, // Alibaba
		{p("168.63.129.16/32"), "metadata"},   // Azure
		{p("192.0.0.192/32"), "metadata"},     // Oracle
		{p("fd00:ec2::/32"), "metadata"},      // AWS: 254 is the metadata, 23 and 253 time and DNS
		{p("fd20:ce::254/128"), "metadata"},   // Google
		// These wrap an IPv4 address in a way that a local translator chooses.
		{p("64:ff9b:1::/48"), "local translation"},
		{p("2001::/32"), "Teredo"},
	}
}

// privateRanges lists what is closed unless the operator opens it.
func privateRanges() []rule {
	p := netip.MustParsePrefix
	return []rule{
		{p("10.0.0.0/8"), "private"},
		{p("172.16.0.0/12"), "private"},
		{p("192.168.0.0/16"), "private"},
		{p("100.64.0.0/10"), "shared"},
		{p("192.0.0.0/24"), "protocol assignments"},
		{p("198.18.0.0/15"), "benchmarking"},
		{p("fc00::/7"), "unique-local"},
	}
}

// The tables are read only.
var (
	goodRules    = forGood()
	privateRules = privateRanges()
)

func closedForGood(addr netip.Addr) string { return match(goodRules, addr) }

func private(addr netip.Addr) string { return match(privateRules, addr) }

func match(rules []rule, addr netip.Addr) string {
	if !addr.IsValid() {
		return "not an address"
	}
	for _, r := range rules {
		if r.prefix.Contains(addr) {
			return r.why
		}
	}
	return ""
}

// embedded returns the IPv4 address that a translated or tunnelled IPv6
// address leads to: NAT64 (RFC 6052, well-known prefix) and 6to4 (RFC 3056).
func embedded(addr netip.Addr) (netip.Addr, bool) {
	if !addr.Is6() {
		return netip.Addr{}, false
	}
	b := addr.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr):
		return netip.AddrFrom4([4]byte(b[12:16])), true
	case netip.MustParsePrefix("2002::/16").Contains(addr):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	}
	return netip.Addr{}, false
}
