package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// Path is where guestd serves the link.
const Path = "/v1/link"

// ErrUnauthorized says that guestd refused the token.
var ErrUnauthorized = errors.New("guest refused the token")

// ErrPeerGone as the reason of a Close says that there is no other end any
// more: the connection is dropped without a word.
var ErrPeerGone = errors.New("other end is gone")

// Conn is a message transport. Read is used by one goroutine, Write and Ping
// by many.
type Conn interface {
	// Read returns the next message; it is valid until the next Read.
	Read() (binary bool, msg []byte, err error)
	// Write sends one message made of head and body.
	Write(binary bool, head, body []byte) error
	// Ping asks the other end for a sign of life.
	Ping() error
	// Close ends the transport; reason is told to the other end when it can be.
	Close(reason error)
}

// Timing holds the waits of a connection.
type Timing struct {
	Idle  time.Duration // without any sign of life the other end is dead; 0: never
	Write time.Duration // one message must be taken within it
}

// Dial opens the caller's end of a link over what dial returns.
func Dial(ctx context.Context, dial func(context.Context) (net.Conn, error), token string, t Timing) (Conn, error) {
	d := websocket.Dialer{
		NetDialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		WriteBufferSize: chunk + 1024,
		ReadBufferSize:  chunk + 1024,
	}
	ws, resp, err := d.DialContext(ctx, "ws://guest"+Path, http.Header{"Authorization": {"Bearer " + token}})
	if resp != nil {
		defer resp.Body.Close()
	}
	if err != nil {
		if resp != nil && resp.StatusCode == http.StatusUnauthorized {
			return nil, ErrUnauthorized
		}
		return nil, fmt.Errorf("open link to guest: %w", err)
	}
	return newWS(ws, t), nil
}

// Upgrade turns an authorized request into the server's end of a link. On an
// error the answer has been written.
func Upgrade(w http.ResponseWriter, r *http.Request, t Timing) (Conn, error) {
	u := websocket.Upgrader{
		WriteBufferSize: chunk + 1024,
		ReadBufferSize:  chunk + 1024,
		// A browser never talks to guestd; one that tries sends an Origin.
		CheckOrigin: func(r *http.Request) bool { return r.Header.Get("Origin") == "" },
	}
	ws, err := u.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("upgrade link: %w", err)
	}
	return newWS(ws, t), nil
}

type wsConn struct {
	ws     *websocket.Conn
	timing Timing
	write  chan struct{} // holds one token: the right to write
	buf    []byte
	held   atomic.Bool // silence is no sign of death
}

func newWS(ws *websocket.Conn, t Timing) *wsConn {
	c := &wsConn{ws: ws, timing: t, write: make(chan struct{}, 1)}
	ws.SetReadLimit(MaxMessage)
	c.alive()
	ws.SetPongHandler(func(string) error { c.alive(); return nil })
	ws.SetPingHandler(func(data string) error {
		c.alive()
		err := ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(time.Second))
		var timeout net.Error
		if errors.Is(err, websocket.ErrCloseSent) || errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		return err
	})
	return c
}

func (c *wsConn) alive() {
	if c.timing.Idle > 0 && !c.held.Load() {
		// An error here shows in the next read.
		_ = c.ws.SetReadDeadline(time.Now().Add(c.timing.Idle))
	}
}

// Hold says whether the other end may be silent for as long as it likes.
func (c *wsConn) Hold(held bool) {
	c.held.Store(held)
	if held {
		_ = c.ws.SetReadDeadline(time.Time{}) // an error shows in the next read
		return
	}
	c.alive()
}

// Read implements Conn.
func (c *wsConn) Read() (bool, []byte, error) {
	kind, r, err := c.ws.NextReader()
	if err != nil {
		return false, nil, readError(err)
	}
	c.buf = c.buf[:0]
	for {
		if len(c.buf) == cap(c.buf) {
			c.buf = append(c.buf, make([]byte, max(chunk+1024, cap(c.buf)))...)[:len(c.buf)]
		}
		n, err := r.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if errors.Is(err, io.EOF) {
			c.alive()
			return kind == websocket.BinaryMessage, c.buf, nil
		}
		if err != nil {
			return false, nil, readError(err)
		}
	}
}

func readError(err error) error {
	if errors.Is(err, websocket.ErrReadLimit) {
		return fmt.Errorf("read message above %d bytes: %w", MaxMessage, ErrProtocol)
	}
	return fmt.Errorf("read link: %w", err)
}

// Write implements Conn.
func (c *wsConn) Write(binary bool, head, body []byte) error {
	c.write <- struct{}{}
	defer func() { <-c.write }()
	if c.timing.Write > 0 {
		if err := c.ws.SetWriteDeadline(time.Now().Add(c.timing.Write)); err != nil {
			return fmt.Errorf("write link: %w", err)
		}
	}
	kind := websocket.TextMessage
	if binary {
		kind = websocket.BinaryMessage
	}
	w, err := c.ws.NextWriter(kind)
	if err != nil {
		return fmt.Errorf("write link: %w", err)
	}
	_, err = w.Write(head)
	if err == nil && len(body) > 0 {
		_, err = w.Write(body)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("write link: %w", err)
	}
	return nil
}

// Ping implements Conn.
func (c *wsConn) Ping() error {
	err := c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(max(c.timing.Write, time.Second)))
	if err != nil {
		return fmt.Errorf("ping link: %w", err)
	}
	return nil
}

// Close implements Conn. Of ErrPeerGone nobody is told.
func (c *wsConn) Close(reason error) {
	if errors.Is(reason, ErrPeerGone) {
		if tcp, ok := c.ws.NetConn().(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // what has not been sent shall not wait for an answer
		}
		c.ws.Close()
		return
	}
	code, text := websocket.CloseNormalClosure, ""
	if errors.Is(reason, ErrProtocol) {
		code, text = websocket.CloseProtocolError, reason.Error()
	}
	text = text[:min(len(text), 100)]
	// The other end may be gone: closing must not wait for it.
	_ = c.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, text), time.Now().Add(50*time.Millisecond))
	c.ws.Close()
}

var _ Conn = (*wsConn)(nil)
