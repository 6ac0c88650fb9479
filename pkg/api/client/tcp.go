package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

// Dial opens a connection to a TCP port of the guest, its loopback included.
// When the port answers no, Dial or the first Read ends with the code refused.
// The connection also has CloseWrite, as a *net.TCPConn has.
func (d *Desktop) Dial(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, api.Errorf(api.CodeInvalid, "port %d is not within 1 to 65535", port)
	}
	ws, err := d.c.socket(ctx, d.path("/tcp/"+strconv.Itoa(port)), nil, api.SubprotocolTCP)
	if err != nil {
		return nil, err
	}
	return &stream{ws: ws}, nil
}

// stream is a net.Conn over the binary messages of a WebSocket.
type stream struct {
	ws   *websocket.Conn
	read io.Reader // rest of the present message
	end  error     // what Read answers after the last byte

	mu sync.Mutex // held while a message is written
}

var _ net.Conn = (*stream)(nil)

// Read may be called by one goroutine at a time.
func (s *stream) Read(p []byte) (int, error) {
	for len(p) > 0 {
		if s.read == nil {
			if s.end == nil {
				s.end = s.next()
			}
			if s.end != nil {
				return 0, s.end
			}
			continue
		}
		n, err := s.read.Read(p)
		if errors.Is(err, io.EOF) {
			s.read, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// next waits for a message. An error says that no more bytes come.
func (s *stream) next() error {
	kind, r, err := s.ws.NextReader()
	if err != nil {
		return streamEnd(err)
	}
	if kind == websocket.BinaryMessage {
		s.read = r
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

// streamEnd turns an orderly close into io.EOF.
func streamEnd(err error) error {
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

// Write may be called by many goroutines.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ws.WriteMessage(websocket.BinaryMessage, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite tells the port that no more bytes come; reading goes on.
func (s *stream) CloseWrite() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ws.WriteJSON(api.TCPMessage{Kind: "eof"})
}

// Close ends both directions.
func (s *stream) Close() error {
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	// A peer that is gone needs no goodbye.
	_ = s.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	return s.ws.Close()
}

// LocalAddr is this end of the link to the server.
func (s *stream) LocalAddr() net.Addr { return s.ws.LocalAddr() }

// RemoteAddr is the server, not the guest.
func (s *stream) RemoteAddr() net.Addr { return s.ws.RemoteAddr() }

// SetReadDeadline bounds Read. A read that timed out ends the connection.
func (s *stream) SetReadDeadline(t time.Time) error { return s.ws.SetReadDeadline(t) }

// SetWriteDeadline bounds Write. A write that timed out ends the connection.
func (s *stream) SetWriteDeadline(t time.Time) error { return s.ws.SetWriteDeadline(t) }

// SetDeadline is both of them.
func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.ws.SetReadDeadline(t), s.ws.SetWriteDeadline(t))
}
