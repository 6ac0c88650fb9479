package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/preview"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/pkg/api"
)

type ticketIn struct {
	route.InDesktop

	Body api.CreateTicket
}

func (s *Server) registerPreview() {
	route.Call(s.routes, huma.Operation{
		OperationID: "create-ticket", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/tickets", Tags: []string{"network"},
		Summary:       "Make a short-lived link under which a browser reaches one port of the guest",
		DefaultStatus: http.StatusCreated,
	}, route.Write, func(ctx context.Context, in *ticketIn) (*route.Reply[api.Ticket], error) {
		t, err := s.host.Ports.Issue(ctx, gate.Of(ctx).Principal, in.Desktop, in.Body)
		t.URL = s.base(ctx) + t.URL
		return &route.Reply[api.Ticket]{Body: t}, err
	})
	proxy := preview.New(s.host.Ports.DialTicket, s.log)
	s.routes.Handle(preview.Path+"{ticket}/{path...}", route.Ticketed, func(w http.ResponseWriter, r *http.Request) {
		g, err := s.host.Ports.Check(r.PathValue("ticket"))
		if err != nil {
			gate.Problem(w, r, err)
			return
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			preview.AllowNoOrigin(w.Header())
			w.WriteHeader(http.StatusNoContent)
			return
		}
		// What was begun under a ticket ends with it.
		ctx, cancel := g.Bind(r.Context())
		defer cancel()
		proxy.ServeHTTP(w, r.WithContext(preview.With(ctx, g)))
	})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		op := huma.Operation{
			OperationID: "preview-" + strings.ToLower(method), Method: method, Path: preview.Path + "{ticket}/{path}", Tags: []string{"network"},
			Summary:    "Reach a port of the guest under a ticket, WebSockets included",
			Parameters: spec.Path("ticket", "path"), Security: []map[string][]string{{}},
		}
		route.Describe(&op)
		s.routes.Doc.AddOperation(&op)
	}
}

// base is this server's address as clients see it.
func (s *Server) base(ctx context.Context) string {
	if u := s.cfg.ExternalURL; u != nil {
		return strings.TrimSuffix(u.String(), "/")
	}
	st := gate.Of(ctx)
	if st.TLS {
		return "https://" + st.Host
	}
	return "http://" + st.Host
}
