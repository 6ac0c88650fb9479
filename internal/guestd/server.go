// Package guestd is the daemon inside a guest: it opens the link to the host
// and wires the services behind it. Each service is a package of its own below.
package guestd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/guestd/dial"
	"github.com/deskfork/deskfork/internal/guestd/display"
	"github.com/deskfork/deskfork/internal/guestd/exec"
	"github.com/deskfork/deskfork/internal/guestd/files"
	"github.com/deskfork/deskfork/internal/guestd/system"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// maxLinks bounds the host's connections at one time.
const maxLinks = 64

// Config of a Server. Token is required.
type Config struct {
	// Token tells the bearer token of the link. It is asked until it answers;
	// before that every connection is refused. Handshakes replace it.
	Token   func() (string, error)
	Allow   []netip.Prefix // who may connect; empty: everybody who knows the token
	Logger  *slog.Logger   // nil: silent
	Version string         // of this program
	User    string         // who runs programs and owns files by default; empty: the present user
	Timing  mux.Timing     // zero: 60 s each

	Exec   exec.Config    // Defaults is set by the server
	System system.Config  // Kernel is required
	Helper display.Config // Spawn nil: this guest has no desktop
	// Session is the X session that the default user's programs belong to.
	Session func() account.Session
}

// Server is guestd.
type Server struct {
	cfg     Config
	log     *slog.Logger
	execs   *exec.Table
	system  *system.Service
	display *display.Supervisor // nil: no desktop
	router  mux.Router
	bootID  string

	shaking chan struct{} // holds one token: the right to serve a handshake

	mu       sync.Mutex
	token    string
	epoch    int // rises when the links of before are cut
	user     string
	env      map[string]string
	sessions map[*mux.Session]chan struct{} // closed when all calls of it have returned
	wg       sync.WaitGroup
}

// New makes a Server; nothing runs before Run.
func New(cfg Config) (*Server, error) {
	if cfg.Token == nil || cfg.System.Kernel == nil {
		return nil, errors.New("guestd needs a token source and a kernel")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Session == nil {
		cfg.Session = func() account.Session { return account.Session{} }
	}
	if cfg.Timing == (mux.Timing{}) {
		cfg.Timing = mux.Timing{Idle: time.Minute, Write: time.Minute}
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger, user: cfg.User, bootID: bootID(), router: mux.Router{},
		shaking: make(chan struct{}, 1), sessions: map[*mux.Session]chan struct{}{},
	}
	cfg.Exec.Defaults, cfg.Exec.Logger = s.defaults, cfg.Logger
	cfg.System.Logger = cfg.Logger
	s.execs = exec.NewTable(cfg.Exec)
	s.system = system.New(cfg.System)
	s.router.Add(mux.Router{guest.OpHello: mux.Typed(s.hello), guest.OpHandshake: mux.Typed(s.handshake)})
	s.router.Add(s.execs.Routes())
	s.router.Add(files.New(files.Config{Logger: cfg.Logger, User: s.defaultUser}).Routes())
	s.router.Add(s.system.Routes())
	s.router.Add(new(dial.Service).Routes())
	if cfg.Helper.Spawn != nil {
		cfg.Helper.Logger, cfg.Helper.OnChange = cfg.Logger, s.displayChanged
		s.display = display.New(cfg.Helper)
		s.router.Add(s.display.Routes())
	} else {
		s.router.Add(display.New(display.Config{}).Routes())
	}
	return s, nil
}

// Run serves links that come through ln until ctx ends. It closes ln, and
// returns when all execs and links have ended.
func (s *Server) Run(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const headers = 10 * time.Second
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.link(ctx, w, r)
		}),
		ReadHeaderTimeout: headers, IdleTimeout: headers, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.system.Melt() // one before us may have ended in between
	defer s.system.Melt()
	var work sync.WaitGroup
	if s.display != nil {
		work.Go(func() { _ = s.display.Run(ctx) }) // returns ctx's error only
	}
	work.Go(func() {
		<-ctx.Done()
		_ = srv.Close() // closes the listener, which Serve tells
	})
	err := srv.Serve(ln)
	cancel()
	work.Wait()
	s.closeAll(ctx.Err())
	s.execs.Close()
	s.wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve link: %w", err)
}

// link serves one connection of the host.
func (s *Server) link(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	if !s.allowed(r.RemoteAddr) {
		http.Error(w, "this address may not connect", http.StatusForbidden)
		return
	}
	epoch, ok := s.authorized(r)
	if !ok {
		s.log.Warn("link refused: wrong token", "remote", r.RemoteAddr)
		http.Error(w, "wrong token", http.StatusUnauthorized)
		return
	}
	if r.URL.Path != mux.Path {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	full := len(s.sessions) >= maxLinks
	s.mu.Unlock()
	if full {
		http.Error(w, "too many links", http.StatusServiceUnavailable)
		return
	}
	conn, err := mux.Upgrade(w, r, s.cfg.Timing)
	if err != nil {
		s.log.Warn("link refused", "remote", r.RemoteAddr, "err", err)
		return
	}
	session := mux.New(mux.Config{Conn: conn, Handler: s.router, Logger: s.log})
	s.mu.Lock()
	if epoch != s.epoch || ctx.Err() != nil { // others were cut just now
		s.mu.Unlock()
		conn.Close(nil)
		return
	}
	ended := make(chan struct{})
	s.sessions[session] = ended
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	s.log.Info("link opened", "remote", r.RemoteAddr)
	err = session.Run(ctx)
	close(ended)
	s.mu.Lock()
	delete(s.sessions, session)
	s.mu.Unlock()
	s.log.Info("link closed", "remote", r.RemoteAddr, "reason", err)
}

func (s *Server) allowed(remote string) bool {
	if len(s.cfg.Allow) == 0 {
		return true
	}
	addr, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	for _, p := range s.cfg.Allow {
		if p.Contains(addr.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// authorized compares in constant time, whatever the lengths. It returns in
// which epoch.
func (s *Server) authorized(r *http.Request) (epoch int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == "" {
		token, err := s.cfg.Token()
		if err != nil || token == "" {
			s.log.Error("this guest was given no token", "err", err)
			return 0, false
		}
		s.token = token
	}
	given, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.token))
	return s.epoch, subtle.ConstantTimeCompare(a[:], b[:]) == 1 && found
}

// closeAll ends every link.
func (s *Server) closeAll(reason error) {
	s.mu.Lock()
	sessions := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	for _, session := range sessions {
		session.Close(reason)
	}
}

// emit tells all links of an event.
func (s *Server) emit(name string, params any) {
	s.mu.Lock()
	sessions := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	for _, session := range sessions {
		_ = session.Emit(name, params) // a lost link needs no event
	}
}

func (s *Server) displayChanged(up bool) { s.emit(guest.EventDisplay, guest.DisplayEvent{Up: up}) }

func (s *Server) defaultUser() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user
}

func (s *Server) defaults() exec.Defaults {
	session := s.cfg.Session()
	s.mu.Lock()
	defer s.mu.Unlock()
	return exec.Defaults{User: s.user, Env: maps.Clone(s.env), Session: session}
}

// Env is the default environment that the last handshake gave.
func (s *Server) Env() map[string]string { return s.defaults().Env }

func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return rand.Text()
	}
	return strings.TrimSpace(string(b))
}

func (s *Server) hello(_ context.Context, _ *mux.Call, p guest.HelloParams) (guest.Hello, error) {
	if p.Protocol != guest.Protocol {
		return guest.Hello{}, &guest.Error{
			Code:    guest.CodeUnsupported,
			Message: fmt.Sprintf("guestd %s speaks protocol %d, the host %d; use an image built for this host", s.cfg.Version, guest.Protocol, p.Protocol),
		}
	}
	h := guest.Hello{
		Protocol: guest.Protocol, Version: s.cfg.Version, OS: runtime.GOOS, Arch: runtime.GOARCH, BootID: s.bootID,
		Capabilities: []string{"exec", "files", "watch", "dial"}, Missing: missing(),
	}
	if hasSystem {
		h.Capabilities = append(h.Capabilities, "system")
	}
	if s.system.Freezes() {
		h.Capabilities = append(h.Capabilities, "freeze")
	}
	if s.display != nil {
		h.Capabilities = append(h.Capabilities, "desktop")
	} else {
		h.Missing = append(h.Missing, "desktop: no helper is installed")
	}
	return h, nil
}
