package gate

import (
	"net/http"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
)

// cookieName begins the name of the cookie that holds a browser's secret for one
// desktop.
const cookieName = "deskfork_view_"

// Ticket finds the ticket that a request shows: as its bearer, which a token is
// not, or in the cookie of its desktop. A browser sends the cookie unasked; what
// changes something, or opens a stream, must say from which page it comes, which
// the gate has compared with our own by then. Empty when there is none.
func Ticket(r *http.Request, bearer string) (string, error) {
	if bearer != "" {
		if strings.HasPrefix(bearer, token.Prefix) {
			return "", nil
		}
		return bearer, nil
	}
	c, err := r.Cookie(cookieName + r.PathValue("desktop"))
	if err != nil {
		return "", nil //nolint:nilerr // there is none
	}
	looks := (r.Method == http.MethodGet || r.Method == http.MethodHead) && !websocket.IsWebSocketUpgrade(r)
	if !looks && r.Header.Get("Origin") == "" {
		return "", api.Errorf(api.CodeForbidden, "a cookie counts with an Origin alone; programs send the ticket as bearer")
	}
	return c.Value, nil
}

// Cookie is what a browser that may watch a desktop keeps. No script reads it, no
// other site makes the browser send it, and it goes to the desktop's own routes
// alone.
func Cookie(s *State, desktop, secret string, expires time.Time) *http.Cookie {
	return &http.Cookie{
		Name: cookieName + desktop, Value: secret, Path: "/v1/desktops/" + desktop + "/", Expires: expires,
		HttpOnly: true, Secure: s.TLS, SameSite: http.SameSiteStrictMode,
	}
}
