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
)

func (s *Server) registerPreview() {
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
