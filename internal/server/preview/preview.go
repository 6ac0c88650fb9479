// Package preview forwards a browser's requests to a port of a guest, under a
// ticket.
package preview

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/pkg/api"
)

// Path is where tickets are opened: /preview/TICKET/path-in-the-guest.
const Path = "/preview/"

type grantKey struct{}

// With puts what a ticket opens into the context of a request.
func With(ctx context.Context, g ticket.Grant) context.Context {
	return context.WithValue(ctx, grantKey{}, g)
}

// New forwards to the port of the grant in the request's context.
//
// A guest's page must not act as one of ours: it runs in a sandbox of no origin,
// so that it can read nothing that another page of this server keeps.
func New(dial func(context.Context, ticket.Grant) (net.Conn, error), log *slog.Logger) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			g, _ := p.In.Context().Value(grantKey{}).(ticket.Grant)
			p.Out.URL.Scheme, p.Out.URL.Host = "http", guestHost(g)
			prefix := Path + p.In.PathValue("ticket")
			p.Out.URL.Path = strings.TrimPrefix(p.In.URL.Path, prefix)
			p.Out.URL.RawPath = strings.TrimPrefix(p.In.URL.RawPath, prefix)
			p.Out.Host = "localhost"
			p.SetXForwarded()
			p.Out.Header.Set("X-Forwarded-Prefix", prefix)
			hideOurs(p.Out.Header)
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				g, ok := ctx.Value(grantKey{}).(ticket.Grant)
				if !ok {
					return nil, errors.New("no ticket")
				}
				return dial(ctx, g)
			},
			// A connection kept would outlive its desktop.
			DisableKeepAlives: true, IdleConnTimeout: 10 * time.Second, ResponseHeaderTimeout: 5 * time.Minute,
		},
		FlushInterval: -1,
		ModifyResponse: func(resp *http.Response) error {
			confine(resp.Header)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			gate.Problem(w, r, fault.At("preview", err))
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// hideOurs takes out of a request what a browser or a client of ours sends by
// itself and a guest must not see: secrets of this server, of what stands before
// it, and, since cookies know no ports, of whatever else runs on its host.
func hideOurs(h http.Header) {
	h.Del("Referer") // it holds the ticket
	h.Del("Cookie")  // none is the guest's: it can set none
	h.Del("Proxy-Authorization")
	auth := h.Get("Authorization")
	scheme, _, _ := strings.Cut(auth, " ")
	switch strings.ToLower(scheme) {
	case "basic", "digest", "negotiate", "ntlm": // a browser remembers these for all of an origin
		h.Del("Authorization")
	default: // a page of the guest may have set it
		if strings.Contains(auth, token.Prefix) {
			h.Del("Authorization")
		}
	}
	const offered = "Sec-Websocket-Protocol"
	var keep []string
	for p := range strings.SplitSeq(strings.Join(h.Values(offered), ","), ",") {
		if p = strings.TrimSpace(p); p != "" && !strings.HasPrefix(p, api.SubprotocolToken) {
			keep = append(keep, p)
		}
	}
	h.Del(offered)
	if len(keep) > 0 {
		h.Set(offered, strings.Join(keep, ", "))
	}
}

// confine puts a guest's answer into its sandbox and takes out what a browser
// would apply to all of this server.
func confine(h http.Header) {
	h.Add("Content-Security-Policy", "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads")
	h.Set("Referrer-Policy", "no-referrer")
	for _, name := range []string{
		"Set-Cookie", "Service-Worker-Allowed", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc",
		"Www-Authenticate", "Nel", "Report-To", "Reporting-Endpoints",
	} {
		h.Del(name)
	}
	AllowNoOrigin(h)
}

// guestHost is a name that keeps the connections of grants apart.
func guestHost(g ticket.Grant) string { return g.Desktop + ".guest" }

// AllowNoOrigin lets a sandboxed page of a preview fetch its own parts. Nothing
// is given away: who knows the ticket may fetch them anyhow.
func AllowNoOrigin(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "null")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "*")
}
