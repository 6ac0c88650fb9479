package server

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/deskfork/deskfork/internal/server/desktops"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/page"
	"github.com/deskfork/deskfork/internal/server/recordings"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/runs"
	"github.com/deskfork/deskfork/internal/server/sandboxes"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/view"
	"github.com/deskfork/deskfork/internal/server/watch"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/web"
)

// register registers every route.
func (s *Server) register() error {
	s.registerHost()
	s.registerImages()
	s.registerTokens()
	s.registerUsage()
	desktops.Register(s.routes, s.host)
	if s.cfg.Sessions != nil {
		runs.Register(s.routes, s.cfg.Sessions, s.limits.Heartbeat)
	}
	s.registerSettings()
	s.registerEvents()
	s.registerExecs()
	s.registerFiles()
	s.registerChanges()
	s.registerScreen()
	s.registerControl()
	s.registerTCP()
	s.registerPreview()
	view.Register(s.routes, view.Config{Host: s.host, Base: s.base, Heartbeat: s.limits.Heartbeat, Now: time.Now})
	watch.Register(s.routes, watch.Config{
		Endpoint: s.cfg.Media, Beat: s.limits.Heartbeat,
		Join: func(r *http.Request, via string) (watch.Visit, error) {
			v, err := s.host.Viewers.Join(r.Context(), view.Viewer(r, via))
			if err != nil {
				return nil, err
			}
			return watch.Person(v), nil
		},
	})
	recordings.Register(s.routes, s.host.Recordings)
	if s.cfg.Sandboxes != nil {
		sandboxes.Register(s.routes, s.cfg.Sandboxes, s.limits.Heartbeat)
	}
	if err := s.registerPages(); err != nil {
		return err
	}
	// What streams carry is described though no operation of huma has it.
	for _, v := range []any{api.Event{}, api.FileChange{}, api.ExecMessage{}, api.TCPMessage{}} {
		s.routes.Schema(v)
	}
	return nil
}

func (s *Server) registerPages() error {
	pages, err := web.Files()
	if err != nil {
		return err
	}
	s.routes.Handle("GET /healthz", route.Open, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-s.host.Ready():
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("ok\n"))
		default:
			gate.Problem(w, r, api.Errorf(api.CodeNoCapacity, "the host is looking for desktops that still run"))
		}
	})
	s.routes.Handle("GET /metrics", route.Open, s.metrics)
	s.routes.Handle("GET /docs", route.Open, func(w http.ResponseWriter, _ *http.Request) { spec.Page(s.routes.Doc, w) })
	return page.Register(s.routes, pages)
}

// metrics needs a token, or a loopback client where that is allowed.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	st := gate.Of(r.Context())
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	local := err == nil && remote.Addr().Unmap().IsLoopback() && st.Client.IsLoopback()
	if !s.cfg.OpenMetrics || !local {
		_, end, err := s.routes.Admit(r, route.Read, st)
		if err != nil {
			gate.Problem(w, r, err)
			return
		}
		defer end()
	}
	s.host.Metrics().Handler().ServeHTTP(w, r)
}
