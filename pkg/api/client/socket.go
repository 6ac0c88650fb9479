package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api/client/fault"
)

// socket dials a WebSocket of the server, again when the server has no room.
func (c *Client) socket(ctx context.Context, path string, query url.Values, protocol string) (*websocket.Conn, error) {
	for attempt := 0; ; attempt++ {
		conn, again, err := c.handshake(ctx, path, query, protocol)
		if err == nil || !again.Untouched || c.rest(ctx, attempt, again.After) != nil {
			return conn, err
		}
	}
}

func (c *Client) handshake(ctx context.Context, path string, query url.Values, protocol string) (*websocket.Conn, fault.Again, error) {
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
		return conn, fault.Again{}, nil
	}
	if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
		problem, ours := fault.Problem(resp)
		return nil, fault.After(resp, problem, ours), problem
	}
	return nil, fault.Again{}, c.fault(ctx, fmt.Errorf("dial: %w", err))
}
