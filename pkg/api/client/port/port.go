// Package port is a connection to a TCP port of a guest, over a WebSocket of the
// server.
package port

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// Conn is a net.Conn over the binary messages of a WebSocket.
type Conn struct {
	ws   *websocket.Conn
	read io.Reader // rest of the present message
	end  error     // what Read answers after the last byte

	mu sync.Mutex // held while a message is written
}

var _ net.Conn = (*Conn)(nil)

// New makes a connection of a WebSocket, which is its own from then on.
func New(ws *websocket.Conn) *Conn { return &Conn{ws: ws} }

// Read may be called by one goroutine at a time.
func (c *Conn) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if c.read == nil {
			if c.end == nil {
				c.end = c.next()
			}
			if c.end != nil {
				return 0, c.end
			}
			continue
		}
		n, err := c.read.Read(p)
		if errors.Is(err, io.EOF) {
			c.read, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// next waits for a message. An error says that no more bytes come.
func (c *Conn) next() error {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return ending(err)
	}
	if kind == websocket.BinaryMessage {
		c.read = r
		return nil
	}
	var m api.TCPMessage
	if err := json.NewDecoder(r).Decode(&m); err != nil {
		return fmt.Errorf("decode message of port: %w", err)
	}
	switch {
	case m.Kind == "eof":
		return io.EOF
	case m.Kind == "error" && m.Error != nil:
		return m.Error
	}
	return nil
}

// ending turns an orderly close into io.EOF.
func ending(err error) error {
	var c *websocket.CloseError
	if !errors.As(err, &c) {
		return err
	}
	switch c.Code {
	case websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived:
		return io.EOF
	case websocket.CloseAbnormalClosure:
		return io.ErrUnexpectedEOF
	default:
		return api.Errorf(api.CodeRefused, "connection closed: %s", c.Text)
	}
}

// Write may be called by many goroutinec.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite tells the port that no more bytes come; reading goes on.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ws.WriteJSON(api.TCPMessage{Kind: "eof"})
}

// Close ends both directionc.
func (c *Conn) Close() error {
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	// A peer that is gone needs no goodbye.
	_ = c.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	return c.ws.Close()
}

// LocalAddr is this end of the link to the server.
func (c *Conn) LocalAddr() net.Addr { return c.ws.LocalAddr() }

// RemoteAddr is the server, not the guest.
func (c *Conn) RemoteAddr() net.Addr { return c.ws.RemoteAddr() }

// SetReadDeadline bounds Read. A read that timed out ends the connection.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.ws.SetReadDeadline(t) }

// SetWriteDeadline bounds Write. A write that timed out ends the connection.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.ws.SetWriteDeadline(t) }

// SetDeadline is both of them.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.ws.SetReadDeadline(t), c.ws.SetWriteDeadline(t))
}
