package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/internal/server/stream"
)

const (
	beat  = 200 * time.Millisecond
	limit = time.Minute // of a test's waits
)

// serve runs fn on the server's end of a WebSocket and returns the client's end
// and what fn answers.
func serve(t *testing.T, fn func(context.Context, *stream.Socket) error) (*websocket.Conn, <-chan error) {
	t.Helper()
	answer := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, lost := context.WithCancel(r.Context())
		defer lost()
		s, err := stream.Upgrade(w, r, "test", beat, lost)
		if err == nil {
			err = fn(ctx, s)
			s.Close(err)
		}
		answer <- err
	}))
	t.Cleanup(srv.Close)
	dialer := websocket.Dialer{Subprotocols: []string{"test"}}
	ws, resp, err := dialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(srv.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	t.Cleanup(func() { ws.Close() })
	return ws, answer
}

func await(t *testing.T, answer <-chan error) error {
	t.Helper()
	select {
	case err := <-answer:
		return err
	case <-time.After(limit):
		t.Fatal("the server's end hangs")
		return nil
	}
}

// TestSlowTaker: a client stays while what it sent waits to be taken, however
// long that is.
func TestSlowTaker(t *testing.T) {
	const size = 4 << 20
	gone, heard := make(chan struct{}), make(chan struct{})
	ws, answer := serve(t, func(_ context.Context, s *stream.Socket) error {
		m, err := s.Next()
		if err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, m.Binary, 1); err != nil {
			return err
		}
		<-heard
		if n, err := io.Copy(io.Discard, m.Binary); err != nil || n != size-1 {
			return fmt.Errorf("took %d bytes: %w", n, err)
		}
		return nil
	})
	pings := 0
	ws.SetPingHandler(func(string) error {
		if pings++; pings == 10 { // twice as long as a silent client may be
			close(heard)
		}
		return nil // a pong would wait behind the message
	})
	go func() {
		defer close(gone)
		_, _, _ = ws.ReadMessage() // until the end: hears pings
	}()
	if err := ws.WriteMessage(websocket.BinaryMessage, make([]byte, size)); err != nil {
		t.Error(err)
	}
	if err := await(t, answer); err != nil {
		t.Error(err)
	}
	<-gone
}

// TestSilentClient: a client that answers nothing is given up.
func TestSilentClient(t *testing.T) {
	_, answer := serve(t, func(ctx context.Context, s *stream.Socket) error {
		_, err := s.Next()
		if ctx.Err() == nil {
			return errors.New("lost was not called")
		}
		return err
	})
	var timeout interface{ Timeout() bool }
	if err := await(t, answer); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("Next answers %v", err)
	}
}
