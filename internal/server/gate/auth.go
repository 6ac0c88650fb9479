package gate

import (
	"net/http"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// Bearer finds the token of a request: in the Authorization header or, for a
// WebSocket of a browser, which can set no header, in an offered subprotocol.
// It is never looked for in the URL. Empty when there is none.
func Bearer(r *http.Request) string {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(secret)
	}
	if !websocket.IsWebSocketUpgrade(r) {
		return ""
	}
	for _, p := range websocket.Subprotocols(r) {
		if secret, ok := strings.CutPrefix(p, api.SubprotocolToken); ok {
			return secret
		}
	}
	return ""
}

// ErrNoToken says that a request came without a token.
func ErrNoToken() error {
	e := api.Errorf(api.CodeUnauthorized, "no bearer token")
	e.Hint = "send Authorization: Bearer TOKEN; the first token lies in the data directory"
	return e
}
