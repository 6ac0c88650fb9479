package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

const (
	// maxMessage bounds one message of a client, in bytes.
	maxMessage = 16 << 20
	// maxText bounds one text message of a client, in bytes.
	maxText = 64 << 10
	// copyBuffer is how much is read from a guest at a time.
	copyBuffer = 32 << 10
	// writeLimit is how long a client may take to read one message.
	writeLimit = time.Minute
	closeLimit = 5 * time.Second
)

// ErrProtocol says that a client sent what the subprotocol does not know.
var ErrProtocol = errors.New("malformed message")

// Socket is the server's end of a WebSocket. One goroutine reads; any may write.
type Socket struct {
	ws    *websocket.Conn
	beat  time.Duration
	abort context.CancelFunc

	mu   sync.Mutex // orders writes
	done chan struct{}
	wait sync.WaitGroup
}

// Wanted refuses a request that is no WebSocket handshake.
func Wanted(r *http.Request) error {
	if websocket.IsWebSocketUpgrade(r) {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "this is a WebSocket: send an upgrade")
	e.Status, e.Title = http.StatusUpgradeRequired, http.StatusText(http.StatusUpgradeRequired)
	return e
}

// Upgrade makes a WebSocket of a request. Its Origin was checked by the gate.
// lost is called when the client goes away; it may be called more than once.
func Upgrade(w http.ResponseWriter, r *http.Request, protocol string, beat time.Duration, lost context.CancelFunc) (*Socket, error) {
	up := websocket.Upgrader{
		ReadBufferSize: copyBuffer, WriteBufferSize: copyBuffer, Subprotocols: []string{protocol},
		CheckOrigin: func(*http.Request) bool { return true },
		Error:       func(http.ResponseWriter, *http.Request, int, error) {}, // the caller answers
	}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("upgrade to a WebSocket: %w", err)
	}
	ws.SetReadLimit(maxMessage)
	s := &Socket{ws: ws, beat: beat, abort: lost, done: make(chan struct{})}
	ws.SetPongHandler(func(string) error { return s.extend() })
	s.wait.Go(s.ping)
	return s, nil
}

// extend gives the client time to be heard of again: five beats.
func (s *Socket) extend() error { return s.ws.SetReadDeadline(time.Now().Add(5 * s.beat)) }

func (s *Socket) ping() {
	tick := time.NewTicker(s.beat)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			if s.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(closeLimit)) != nil {
				s.abort()
				return
			}
		}
	}
}

// Message is one message of a client: text, or binary to be read.
type Message struct {
	Text   []byte    // nil for a binary message
	Binary io.Reader // nil for a text message
}

// Next waits for a message. io.EOF says that the client closed in order. It is
// called when the binary part of the one before has been read.
func (s *Socket) Next() (Message, error) {
	if err := s.extend(); err != nil {
		return Message{}, err
	}
	kind, r, err := s.ws.NextReader()
	if err != nil {
		s.abort()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived) {
			return Message{}, io.EOF
		}
		return Message{}, err
	}
	if kind == websocket.BinaryMessage {
		return Message{Binary: part{s, r}}, nil
	}
	text, err := io.ReadAll(io.LimitReader(r, maxText+1))
	if err != nil {
		return Message{}, err
	}
	if len(text) > maxText {
		return Message{}, fmt.Errorf("%w: text of more than %d bytes", ErrProtocol, maxText)
	}
	return Message{Text: text}, nil
}

// part is a binary message. What takes it may be slow, and pongs are heard only
// while something is read: the client's time begins anew with each read.
type part struct {
	s *Socket
	r io.Reader
}

// Read implements io.Reader.
func (p part) Read(b []byte) (int, error) {
	if err := p.s.extend(); err != nil {
		return 0, err
	}
	return p.r.Read(b)
}

// Text sends a value as JSON.
func (s *Socket) Text(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	return s.write(websocket.TextMessage, body)
}

// Binary sends bytes.
func (s *Socket) Binary(p []byte) error {
	err := s.write(websocket.BinaryMessage, p)
	if err != nil {
		s.abort()
	}
	return err
}

func (s *Socket) write(kind int, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ws.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
		return err
	}
	return s.ws.WriteMessage(kind, p)
}

// Copy sends what r yields as binary messages, each after prefix, until r ends;
// a clean end is no error.
func (s *Socket) Copy(r io.Reader, prefix ...byte) error {
	buf := make([]byte, len(prefix)+copyBuffer)
	copy(buf, prefix)
	for {
		n, err := r.Read(buf[len(prefix):])
		if n > 0 {
			if err := s.write(websocket.BinaryMessage, buf[:len(prefix)+n]); err != nil {
				s.abort()
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Close says goodbye, closes the connection and waits for its own goroutine.
func (s *Socket) Close(err error) {
	code, text := websocket.CloseNormalClosure, ""
	switch {
	case errors.Is(err, ErrProtocol):
		code, text = websocket.CloseUnsupportedData, "malformed message"
	case err != nil:
		code, text = websocket.CloseInternalServerErr, "see the last message"
	}
	bye := websocket.FormatCloseMessage(code, text)
	_ = s.ws.WriteControl(websocket.CloseMessage, bye, time.Now().Add(closeLimit)) // a client that is gone needs none
	close(s.done)
	s.abort()
	_ = s.ws.Close()
	s.wait.Wait()
}
