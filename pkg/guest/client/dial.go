package client

import (
	"context"
	"net"
	"strconv"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// DialPort connects to a TCP port as the guest sees it; an empty host is the
// guest's localhost. A port that answers no is CodeRefused. ctx bounds the
// connecting. The connection has a CloseWrite for half-close.
func (c *Client) DialPort(ctx context.Context, host string, port int) (net.Conn, error) {
	p, err := c.open(ctx, guest.OpDial, guest.DialParams{Host: host, Port: port}, 1)
	if err != nil {
		return nil, err
	}
	if err := await(ctx, p, guest.OpDial, nil); err != nil {
		return nil, err
	}
	if host == "" {
		host = "localhost"
	}
	return &portConn{Stream: p.Streams[0], remote: portAddr(net.JoinHostPort(host, strconv.Itoa(port)))}, nil
}

// portConn is a connection through the guest.
type portConn struct {
	*mux.Stream
	remote portAddr
}

// portAddr is an address as the guest sees it.
type portAddr string

// Network implements net.Addr.
func (portAddr) Network() string { return "tcp" }

// String implements net.Addr.
func (a portAddr) String() string { return string(a) }

// LocalAddr implements net.Conn.
func (c *portConn) LocalAddr() net.Addr { return portAddr("guest") }

// RemoteAddr implements net.Conn.
func (c *portConn) RemoteAddr() net.Addr { return c.remote }

var _ net.Conn = (*portConn)(nil)
