package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/pkg/api"
)

// previewPath is where tickets are opened: /preview/TICKET/path-in-the-guest.
const previewPath = "/preview/"

// previewIdle is how long a connection to a guest's port is kept for the next
// request.
const previewIdle = 10 * time.Second

type ticketIn struct {
	InDesktop

	Body api.CreateTicket
}

func (s *Server) registerPreview() {
	call(s, huma.Operation{
		OperationID: "create-ticket", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/tickets", Tags: []string{"network"},
		Summary:       "Make a short-lived link under which a browser reaches one port of the guest",
		DefaultStatus: http.StatusCreated,
	}, write, func(ctx context.Context, in *ticketIn) (*reply[api.Ticket], error) {
		t, err := s.host.IssueTicket(ctx, project(ctx), in.Desktop, in.Body)
		t.URL = s.base(ctx) + t.URL
		return &reply[api.Ticket]{Body: t}, err
	})
	proxy := s.newProxy()
	s.handle(previewPath+"{ticket}/{path...}", rule{class: long, body: unlimited}, func(w http.ResponseWriter, r *http.Request) {
		g, err := s.host.CheckTicket(r.PathValue("ticket"))
		if err != nil {
			gate.Problem(w, r, err)
			return
		}
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			allowNoOrigin(w.Header())
			w.WriteHeader(http.StatusNoContent)
			return
		}
		// What was begun under a ticket ends with it.
		ctx, cancel := context.WithDeadline(r.Context(), g.Expires)
		defer cancel()
		proxy.ServeHTTP(w, r.WithContext(context.WithValue(ctx, grantKey{}, g)))
	})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		op := huma.Operation{
			OperationID: "preview-" + strings.ToLower(method), Method: method, Path: previewPath + "{ticket}/{path}", Tags: []string{"network"},
			Summary:    "Reach a port of the guest under a ticket, WebSockets included",
			Parameters: pathParams("ticket", "path"), Security: []map[string][]string{{}},
		}
		describe(&op)
		s.doc.AddOperation(&op)
	}
}

type grantKey struct{}

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

// newProxy forwards to the port of the grant in the request's context.
//
// A guest's page must not act as one of ours: it runs in a sandbox of no origin,
// so that it can read nothing that another page of this server keeps.
func (s *Server) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			g, _ := p.In.Context().Value(grantKey{}).(ticket.Grant)
			p.Out.URL.Scheme, p.Out.URL.Host = "http", guestHost(g)
			prefix := previewPath + p.In.PathValue("ticket")
			p.Out.URL.Path = strings.TrimPrefix(p.In.URL.Path, prefix)
			p.Out.URL.RawPath = strings.TrimPrefix(p.In.URL.RawPath, prefix)
			p.Out.Host = "localhost"
			p.SetXForwarded()
			p.Out.Header.Set("X-Forwarded-Prefix", prefix)
			p.Out.Header.Del("Referer") // it holds the ticket
			if strings.Contains(p.Out.Header.Get("Authorization"), token.Prefix) {
				p.Out.Header.Del("Authorization")
			}
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				g, ok := ctx.Value(grantKey{}).(ticket.Grant)
				if !ok {
					return nil, errors.New("no ticket")
				}
				return s.host.DialTicket(ctx, g)
			},
			// A connection kept would outlive its desktop.
			DisableKeepAlives: true, IdleConnTimeout: previewIdle, ResponseHeaderTimeout: 5 * time.Minute,
		},
		FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error {
			h := resp.Header
			h.Add("Content-Security-Policy", "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads")
			h.Set("Referrer-Policy", "no-referrer")
			h.Del("Set-Cookie") // it would be ours
			h.Del("Service-Worker-Allowed")
			allowNoOrigin(h)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			gate.Problem(w, r, fault.At("preview", err))
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// guestHost is a name that keeps the connections of grants apart.
func guestHost(g ticket.Grant) string { return g.Desktop + ".guest" }

// allowNoOrigin lets a sandboxed page of a preview fetch its own parts. Nothing
// is given away: who knows the ticket may fetch them anyhow.
func allowNoOrigin(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "null")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "*")
}
