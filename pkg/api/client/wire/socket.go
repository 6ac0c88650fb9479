package wire

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

// Socket dials a WebSocket of the server, again when the server has no room.
func (s *Server) Socket(ctx context.Context, path string, query url.Values, protocol string) (*websocket.Conn, error) {
	for attempt := 0; ; attempt++ {
		conn, again, err := s.handshake(ctx, path, query, protocol)
		if err == nil || !again.Untouched || s.rest(ctx, attempt, again.After) != nil {
			return conn, err
		}
	}
}

func (s *Server) handshake(ctx context.Context, path string, query url.Values, protocol string) (*websocket.Conn, fault.Again, error) {
	dialer := websocket.Dialer{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: s.TLS, HandshakeTimeout: 30 * time.Second,
		ReadBufferSize: 64 << 10, WriteBufferSize: 64 << 10,
	}
	if protocol != "" {
		dialer.Subprotocols = []string{protocol}
	}
	header := http.Header{}
	s.dress(header)
	// http becomes ws, https becomes wss.
	address := "ws" + strings.TrimPrefix(s.url(path, query), "http")
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
	return nil, fault.Again{}, s.Fault(ctx, fmt.Errorf("dial: %w", err))
}
