package gate

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
)

// Proxies are the networks whose X-Forwarded-* headers are believed.
type Proxies []netip.Prefix

// apply fills in who the client is and how it sees this server.
func (p Proxies) apply(r *http.Request, s *State) {
	s.TLS, s.Host = r.TLS != nil, r.Host
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return // a unix socket has no address
	}
	s.Client = remote.Addr().Unmap()
	if !p.contains(s.Client) {
		return
	}
	if proto := last(r.Header.Get("X-Forwarded-Proto")); proto != "" {
		s.TLS = proto == "https"
	}
	if host := last(r.Header.Get("X-Forwarded-Host")); host != "" {
		s.Host = host
	}
	// From the right: the first address that is no proxy of ours is the client.
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		a, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			return
		}
		s.Client = a.Unmap()
		if !p.contains(s.Client) {
			return
		}
	}
}

func (p Proxies) contains(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(a) })
}

// last is the last element of a comma-separated list: what the nearest proxy
// says.
func last(list string) string {
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}

// Names are the host names that this server answers to. A browser that was
// lured to another name by DNS sends that name, and gets nothing.
type Names struct {
	// Any allowed name, lower case, without port, besides loopback names.
	Allowed []string
	// Literal allows every IP address as a name: right when the server listens
	// on addresses it does not know. DNS cannot rebind an address.
	Literal bool
	// Origins that may call besides the server's own, e.g. https://desks.example.
	Origins []string
}

// CheckHost refuses a Host header that names somebody else.
func (n Names) CheckHost(host string) error {
	name := strings.ToLower(hostname(host))
	if n.allowed(name) {
		return nil
	}
	e := api.Errorf(api.CodeForbidden, "this server does not answer to the name %q", name)
	e.Hint = "name it with --external-url or --allowed-host"
	return e
}

func (n Names) allowed(name string) bool {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || slices.Contains(n.Allowed, name) {
		return true
	}
	a, err := netip.ParseAddr(name)
	return err == nil && (n.Literal || a.Unmap().IsLoopback())
}

// hostname is host without port and brackets.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// CheckOrigin refuses what a page of another origin sends through a browser.
// Programs send no Origin.
func (n Names) CheckOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	if slices.Contains(n.Origins, strings.ToLower(origin)) {
		return nil
	}
	s := Of(r.Context())
	scheme := "http"
	if s.TLS {
		scheme = "https"
	}
	if u, err := url.Parse(origin); err == nil && u.Scheme == scheme && strings.EqualFold(u.Host, s.Host) {
		return nil
	}
	e := api.Errorf(api.CodeForbidden, "a page of origin %q may not call this server", origin)
	e.Hint = "open the page from this server's own address, or name the origin with --external-url"
	return e
}
