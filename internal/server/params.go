package server

import (
	"net/http"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// wantsSocket refuses a request that is no WebSocket handshake.
func wantsSocket(r *http.Request) error {
	if websocket.IsWebSocketUpgrade(r) {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "this is a WebSocket: send an upgrade")
	e.Status, e.Title = http.StatusUpgradeRequired, http.StatusText(http.StatusUpgradeRequired)
	return e
}
