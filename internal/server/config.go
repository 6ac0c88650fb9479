package server

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/doctor"
	"github.com/deskfork/deskfork/internal/host/sessions"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/sandboxes"
	"github.com/deskfork/deskfork/pkg/desktop/rtc"
)

// Config is what the server is made of.
type Config struct {
	// Host is the use cases. Required.
	Host *host.Host
	// Sessions runs commands in workspaces. Nil: there are no routes for that.
	Sessions *sessions.Desk
	// Sandboxes leases machines to drivers of managed runtimes. Nil: their routes are
	// not served.
	Sandboxes sandboxes.Desk
	// Media takes viewers by WebRTC. Nil: there are none.
	Media *rtc.Endpoint
	// Address is where the server listens, host:port. Its host is a name that the
	// server answers to; an unspecified one lets it answer to every IP address.
	Address string
	// ExternalURL is the server's address as clients see it, when that differs,
	// e.g. https://desks.example. Its origin may call from browsers. May be nil.
	ExternalURL *url.URL
	// AllowedHosts are further names that the server answers to.
	AllowedHosts []string
	// TrustedProxies are networks whose X-Forwarded-* headers are believed.
	TrustedProxies []netip.Prefix
	// TLS says that the server itself speaks TLS.
	TLS bool
	// OpenMetrics lets loopback clients read /metrics without a token.
	OpenMetrics bool
	// Doctor examines the host for GET /v1/doctor. Nil: the call answers
	// unsupported.
	Doctor func() doctor.Config
	// Limits bound what is served at once. Zero members: defaults.
	Limits Limits
	// Logger takes the access log. Nil: nothing is logged.
	Logger *slog.Logger
	// Version is that of the program, for the OpenAPI document.
	Version string
}

// Limits bound what is served at once.
type Limits struct {
	Requests int           // short calls at once. Default 128
	Queue    int           // short calls that wait. Default 512
	Wait     time.Duration // how long one waits at most. Default 10 s
	Streams  int           // streams, waits and programs at once. Default 1024
	// Share is the part of Requests and of Streams that one desktop may hold: one
	// divided by it. Default 4.
	Share int
	// Call is how long a short call may take once it is served. Default 60 s.
	Call time.Duration
	// BodyIdle is how long a part of a body may take to come. Default 60 s.
	BodyIdle time.Duration
	// AnswerIdle is how long a client may take to read a part of an answer.
	// Default 60 s.
	AnswerIdle time.Duration
	// Heartbeat is the pause between signs of life on idle event streams and
	// WebSockets. Default 15 s.
	Heartbeat time.Duration
}

func (l *Limits) setDefaults() {
	l.Requests = cmp.Or(l.Requests, 128)
	l.Queue = cmp.Or(l.Queue, 512)
	l.Wait = cmp.Or(l.Wait, 10*time.Second)
	l.Streams = cmp.Or(l.Streams, 1024)
	l.Share = cmp.Or(l.Share, 4)
	l.Call = cmp.Or(l.Call, time.Minute)
	l.BodyIdle = cmp.Or(l.BodyIdle, time.Minute)
	l.AnswerIdle = cmp.Or(l.AnswerIdle, time.Minute)
	l.Heartbeat = cmp.Or(l.Heartbeat, 15*time.Second)
}

func (c *Config) validate() error {
	var errs []error
	if c.Host == nil {
		errs = append(errs, errors.New("no host"))
	}
	if u := c.ExternalURL; u != nil && (u.Host == "" || (u.Scheme != "http" && u.Scheme != "https")) {
		errs = append(errs, fmt.Errorf("external URL %q: want http:// or https:// and a host", u))
	}
	if c.Address != "" {
		if _, _, err := net.SplitHostPort(c.Address); err != nil {
			errs = append(errs, fmt.Errorf("address %q: %w", c.Address, err))
		}
	}
	return errors.Join(errs...)
}

// names are what the Host and Origin headers are checked against.
func (c *Config) names() gate.Names {
	n := gate.Names{}
	add := func(host string) {
		if host != "" {
			n.Allowed = append(n.Allowed, strings.ToLower(host))
		}
	}
	if bound, _, err := net.SplitHostPort(c.Address); err == nil {
		add(bound)
		ip, err := netip.ParseAddr(bound)
		n.Literal = bound == "" || (err == nil && ip.IsUnspecified())
	}
	for _, h := range c.AllowedHosts {
		add(h)
	}
	if u := c.ExternalURL; u != nil {
		add(u.Hostname())
		n.Origins = append(n.Origins, strings.ToLower(u.Scheme+"://"+u.Host))
	}
	return n
}
