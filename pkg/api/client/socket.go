package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// socket dials a WebSocket of the server.
func (c *Client) socket(ctx context.Context, path string, query url.Values, protocol string) (*websocket.Conn, error) {
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.tls, HandshakeTimeout: 30 * time.Second,
		ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
	}
	if protocol != "" {
		dialer.Subprotocols = []string{protocol}
	}
	header := http.Header{}
	c.dress(header)
	// http becomes ws, https becomes wss.
	address := "ws" + strings.TrimPrefix(c.url(path, query), "http")
	conn, resp, err := dialer.DialContext(ctx, address, header)
	if resp != nil {
		defer resp.Body.Close()
	}
	if err == nil {
		return conn, nil
	}
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		problem, _ := problemOf(resp)
		return nil, problem
	}
	return nil, c.fault(ctx, fmt.Errorf("dial: %w", err))
}
