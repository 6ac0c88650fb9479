package parse

import (
	"net"
	"strconv"
	"strings"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// Pairs reads K=V words; what names them in errors. The last of equal keys
// counts.
func Pairs(what string, words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(words))
	for _, w := range words {
		k, v, ok := strings.Cut(w, "=")
		if !ok || k == "" {
			return nil, invalid("%s %q is not KEY=VALUE", what, w)
		}
		m[k] = v
	}
	return m, nil
}

// Filter reads label=k=v, label=k, state=s and name=n.
func Filter(words []string) (client.Filter, error) {
	f := client.Filter{Labels: map[string]string{}}
	for _, w := range words {
		kind, value, ok := strings.Cut(w, "=")
		if !ok || value == "" {
			return f, invalid("filter %q is not label=KEY[=VALUE], state=STATE or name=NAME", w)
		}
		switch kind {
		case "label":
			k, v, _ := strings.Cut(value, "=")
			if k == "" {
				return f, invalid("filter %q has no key", w)
			}
			f.Labels[k] = v
		case "state":
			f.State = api.DesktopState(value)
		case "name":
			f.Name = value
		default:
			return f, invalid("filter %q: no such kind; there are label, state and name", w)
		}
	}
	return f, nil
}

// Forward reads [[address:]local:]port into the address to listen on and the
// guest's port. Without an address it is loopback; without a local port it is
// the guest's; local port 0 is a free one.
func Forward(s string) (listen string, port int, _ error) {
	local, guest := "", s
	if i := strings.LastIndexByte(s, ':'); i >= 0 {
		local, guest = s[:i], s[i+1:]
	}
	port, err := number(guest, 1)
	if err != nil {
		return "", 0, invalid("forward %q: the guest's port %q is not within 1 to 65535", s, guest)
	}
	host := "127.0.0.1"
	if i := strings.LastIndexByte(local, ':'); i >= 0 {
		host, local = strings.Trim(local[:i], "[]"), local[i+1:]
	}
	if net.ParseIP(host) == nil {
		return "", 0, invalid("forward %q: %q is not an IP address", s, host)
	}
	if local == "" {
		local = strconv.Itoa(port)
	}
	if _, err := number(local, 0); err != nil {
		return "", 0, invalid("forward %q: the local port %q is not within 0 to 65535", s, local)
	}
	return net.JoinHostPort(host, local), port, nil
}

func number(s string, least uint64) (int, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return 0, err
	}
	if n < least {
		return 0, strconv.ErrRange
	}
	return int(n), nil
}
