package gate

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
)

// cookieName begins the name of the cookie that holds a browser's secret: for one
// desktop its id follows, for all of a project the port of this server, since
// cookies do not tell servers on one host apart.
const cookieName = "deskfork_view_"

// projectCookie is the name of the cookie for a project.
func projectCookie(s *State) string {
	_, port, err := net.SplitHostPort(s.Host)
	if err != nil {
		port = "default"
	}
	return cookieName + "at_" + port
}

// Tickets finds the tickets that a request shows: one as its bearer, which a token is
// not, or those in the cookies of its desktop and of a project. A browser sends a
// cookie unasked; what changes something, or opens a stream, must say from which page
// it comes, which the gate has compared with our own by then.
func Tickets(r *http.Request, bearer string) ([]string, error) {
	if bearer != "" {
		if strings.HasPrefix(bearer, token.Prefix) {
			return nil, nil
		}
		return []string{bearer}, nil
	}
	var list []string
	names := []string{projectCookie(Of(r.Context()))}
	if d := r.PathValue("desktop"); d != "" {
		names = []string{cookieName + d, names[0]}
	}
	for _, name := range names {
		if c, err := r.Cookie(name); err == nil {
			list = append(list, c.Value)
		}
	}
	looks := (r.Method == http.MethodGet || r.Method == http.MethodHead) && !websocket.IsWebSocketUpgrade(r)
	if len(list) > 0 && !looks && r.Header.Get("Origin") == "" {
		return nil, api.Errorf(api.CodeForbidden, "a cookie counts with an Origin alone; programs send the ticket as bearer")
	}
	return list, nil
}

// Cookie is what a browser that may watch a desktop keeps, or all of a project when
// none is named. No script reads it, no other site makes the browser send it, and it
// goes to the desktop's own routes, or the API's, alone.
func Cookie(s *State, desktop, secret string, expires time.Time) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName + desktop, Value: secret, Path: "/v1/desktops/" + desktop + "/", Expires: expires,
		HttpOnly: true, Secure: s.TLS, SameSite: http.SameSiteStrictMode,
	}
	if desktop == "" {
		c.Name, c.Path = projectCookie(s), "/v1/"
	}
	return c
}
