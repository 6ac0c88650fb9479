package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/preview"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

// Server is the HTTP API. It starts nothing of its own: every goroutine ends
// with the request that it serves.
type Server struct {
	host   *host.Host
	cfg    Config
	log    *slog.Logger
	limits Limits
	names  gate.Names
	routes *route.Table
	root   http.Handler
}

var _ http.Handler = (*Server)(nil)

// New makes the handler of the API.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("configure server: %w", err)
	}
	cfg.Limits.setDefaults()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.OpenMetrics && len(cfg.TrustedProxies) > 0 {
		cfg.Logger.Warn("metrics need no token, and a trusted proxy may make strangers look local",
			"fix", "keep /metrics off the proxy, or start without --open-metrics")
	}
	l := cfg.Limits
	s := &Server{
		host: cfg.Host, cfg: cfg, log: cfg.Logger, limits: l, names: cfg.names(),
		routes: route.New(route.Config{
			Enter: cfg.Host.Access.Enter, Ticket: cfg.Host.Views.Check, Refused: cfg.Host.Metrics().Refused, BodyIdle: l.BodyIdle, Version: cfg.Version,
			Short: gate.NewLane(l.Requests, l.Share, l.Queue, l.Wait, l.Call),
			Long:  gate.NewLane(l.Streams, l.Share, l.Queue, l.Wait, 0),
		}),
	}
	if err := s.register(); err != nil {
		return nil, fmt.Errorf("configure server: %w", err)
	}
	s.root = &gate.Access{
		Next: http.HandlerFunc(s.dispatch), Logger: s.log, Metrics: s.host.Metrics(),
		Proxies: cfg.TrustedProxies, Path: loggedPath, Patience: l.AnswerIdle,
	}
	return s, nil
}

// HTTP wraps a handler in a server with the timeouts that it is meant for: slow
// headers and idle connections are cut, streams are not.
func HTTP(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// Routes lists what is served.
func (s *Server) Routes() []route.Route { return s.routes.Routes() }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.root.ServeHTTP(w, r) }

// dispatch checks where a request comes from and finds its handler; what the mux
// would answer by itself in plain text becomes a problem.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	if err := s.names.CheckHost(gate.Of(r.Context()).Host); err != nil {
		gate.Problem(w, r, err)
		return
	}
	// A preview's pages are of no origin (see package preview); its ticket admits.
	if !strings.HasPrefix(r.URL.Path, preview.Path) {
		if err := s.names.CheckOrigin(r); err != nil {
			gate.Problem(w, r, err)
			return
		}
	}
	h, pattern := s.routes.Handler(r)
	if pattern == "" {
		s.unmatched(w, r, h)
		return
	}
	s.routes.ServeHTTP(w, r)
}

// unmatched asks the mux's own answer for status and Allow, and says the rest.
func (s *Server) unmatched(w http.ResponseWriter, r *http.Request, h http.Handler) {
	probe := &probe{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if probe.status != http.StatusMethodNotAllowed {
		e := api.Errorf(api.CodeNotFound, "no such route: %s %s", r.Method, loggedPath(r))
		e.Hint = "the routes are listed at /openapi.json and /docs"
		gate.Problem(w, r, e)
		return
	}
	allow := probe.header.Get("Allow")
	w.Header().Set("Allow", allow)
	e := api.Errorf(api.CodeInvalid, "method %s is not allowed here; allowed: %s", r.Method, allow)
	e.Status, e.Title = http.StatusMethodNotAllowed, http.StatusText(http.StatusMethodNotAllowed)
	gate.Problem(w, r, e)
}

// probe takes an answer that nobody reads.
type probe struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (p *probe) Header() http.Header { return p.header }

// WriteHeader implements http.ResponseWriter.
func (p *probe) WriteHeader(status int) { p.status = status }

func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

// loggedPath is a path without secrets: a preview's ticket is cut short.
func loggedPath(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.Path, preview.Path)
	if !ok {
		return r.URL.Path
	}
	ticket, tail, _ := strings.Cut(rest, "/")
	return preview.Path + ticket[:min(len(ticket), 4)] + "…/" + tail
}
