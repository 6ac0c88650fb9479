// Package dns answers a guest's DNS queries, over UDP and TCP and of any type,
// by asking the resolvers that the host itself uses. Answers are passed on as
// they are: an address that the egress policy closes can be looked up, and is
// then refused when it is dialled. The host's hosts file is not consulted.
package dns

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
)

// Defaults of Config.
const (
	DefaultMaxInFlight = 256
	DefaultTimeout     = 8 * time.Second

	maxTCPConns  = 32
	udpQuerySize = 4096 // bytes
)

// Config of a Server. The zero value forwards to the host's resolvers.
type Config struct {
	// Upstreams lists resolvers as host:port in the order to try; it is called
	// for every query. Nil: ResolvConf of /etc/resolv.conf.
	Upstreams func() ([]string, error)
	// Refuse answers every query with REFUSED and asks nobody.
	Refuse bool
	// MaxInFlight bounds the queries that wait for an answer; those beyond get
	// SERVFAIL at once. 0 means DefaultMaxInFlight.
	MaxInFlight int
	// Timeout bounds one query over all upstreams; 0 means DefaultTimeout.
	Timeout time.Duration
	// Logger gets a debug line for each query that no upstream answered. Nil
	// discards.
	Logger *slog.Logger
}

// Server answers queries of one guest.
type Server struct {
	cfg      Config
	inFlight chan struct{}
}

// New makes a Server; Run starts it.
func New(cfg Config) (*Server, error) {
	if cfg.MaxInFlight < 0 || cfg.Timeout < 0 {
		return nil, fmt.Errorf("check dns config: max in flight %d and timeout %s must not be negative", cfg.MaxInFlight, cfg.Timeout)
	}
	if cfg.Upstreams == nil {
		cfg.Upstreams = func() ([]string, error) { return ResolvConf("/etc/resolv.conf") }
	}
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = DefaultMaxInFlight
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{cfg: cfg, inFlight: make(chan struct{}, cfg.MaxInFlight)}, nil
}

// ResolvConf reads the resolvers from a file in the format of resolv.conf(5).
func ResolvConf(path string) ([]string, error) {
	c, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("read resolvers: %w", err)
	}
	var out []string
	for _, s := range c.Servers {
		out = append(out, net.JoinHostPort(s, c.Port))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("read resolvers: %s names no nameserver", path)
	}
	return out, nil
}

// Run serves both transports until ctx ends or one of them breaks, closes both
// and returns when all queries have ended. Its error is nil after ctx ended.
func (s *Server) Run(ctx context.Context, pc net.PacketConn, ln net.Listener) error {
	g, gctx := errgroup.WithContext(ctx)
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) { s.serve(gctx, w, q) })
	for _, srv := range []*dns.Server{
		{PacketConn: pc, Handler: handler, UDPSize: udpQuerySize},
		{Listener: newLimited(ln, maxTCPConns), Handler: handler},
	} {
		g.Go(func() error { return serveUntil(gctx, srv) })
	}
	err := g.Wait()
	_ = pc.Close()
	_ = ln.Close()
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// serveUntil runs one server until ctx ends.
func serveUntil(ctx context.Context, srv *dns.Server) error {
	started, ended := make(chan struct{}), make(chan error, 1)
	srv.NotifyStartedFunc = func() { close(started) }
	go func() { ended <- srv.ActivateAndServe() }()
	select {
	case err := <-ended:
		return errors.Join(errors.New("dns server ended"), err)
	case <-ctx.Done():
	}
	select {
	case err := <-ended: // it never started
		return errors.Join(ctx.Err(), err)
	case <-started:
	}
	return errors.Join(ctx.Err(), srv.Shutdown(), <-ended)
}
