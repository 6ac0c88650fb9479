package link

import (
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
)

const (
	pingEvery = 10 * time.Second
	deadAfter = 35 * time.Second // of silence
	// bulk is how much input may be on its way before silence no longer means a
	// dead link: a program that does not read its input stalls the server's
	// reading, its answers to pings included.
	bulk = 64 << 10
	// maxAgain is how much input may be on its way and not confirmed, in bytes:
	// more than the server and the guest hold before they confirm.
	maxAgain = 1 << 20
)

var errSilent = errors.New("server is silent")

// sender writes one link of an attachment: input, sizes and pings.
type sender struct {
	a       *attachment
	conn    *websocket.Conn
	started bool
	stop    chan struct{}
	done    chan struct{}
	wake    chan struct{} // something was said that concerns the sender
	last    atomic.Int64  // when the server was heard last, Unix nanoseconds
	sent    atomic.Int64  // bytes of input since then
}

func newSender(a *attachment, conn *websocket.Conn) *sender {
	s := &sender{a: a, conn: conn, stop: make(chan struct{}), done: make(chan struct{}), wake: make(chan struct{}, 1)}
	s.heard()
	conn.SetPongHandler(func(string) error {
		s.heard()
		return nil
	})
	answer := conn.PingHandler()
	conn.SetPingHandler(func(text string) error {
		s.heard()
		return answer(text)
	})
	return s
}

func (s *sender) heard() {
	s.last.Store(time.Now().UnixNano())
	s.sent.Store(0)
}

// nudge has the sender look at what was confirmed, and whether input is wanted.
func (s *sender) nudge() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look in any case
	}
}

// begin starts to send; the server has said that it is attached.
func (s *sender) begin() {
	if s.started {
		return
	}
	s.started = true
	go func() {
		defer close(s.done)
		if s.run() != nil {
			_ = s.conn.Close() // the reader reports the broken link
		}
	}()
}

// close ends the link and waits for the sender.
func (s *sender) close() {
	close(s.stop)
	_ = s.conn.Close()
	if s.started {
		<-s.done
	}
}

func (s *sender) run() error {
	if err := s.resume(); err != nil {
		return err
	}
	ticks := time.NewTicker(pingEvery)
	defer ticks.Stop()
	for {
		input := s.a.input
		if s.a.eof || s.a.deaf.Load() || s.a.again.Len() >= maxAgain {
			input = nil
		}
		var err error
		select {
		case <-s.stop:
			return nil
		case <-s.wake:
			s.a.again.Confirm(s.a.taken.Load())
		case <-ticks.C:
			err = s.ping()
		case size, ok := <-s.a.tty:
			if !ok {
				s.a.tty = nil
				break
			}
			s.a.size = size
			err = s.resize()
		case chunk, ok := <-input:
			if !ok {
				s.a.eof = true
				err = s.message(api.ExecMessage{Kind: "eof"})
				break
			}
			s.a.again.Append(chunk)
			err = s.send(chunk)
		}
		if err != nil {
			return err
		}
	}
}

// resume says again what the last link may not have carried.
func (s *sender) resume() error {
	if s.a.size != (Size{}) {
		if err := s.resize(); err != nil {
			return err
		}
	}
	if s.a.input == nil || s.a.deaf.Load() {
		return nil
	}
	left, err := s.a.again.Join(s.a.taken.Load())
	if err != nil {
		return err
	}
	if err := s.send(left); err != nil {
		return err
	}
	if s.a.eof {
		return s.message(api.ExecMessage{Kind: "eof"})
	}
	return nil
}

func (s *sender) send(input []byte) error {
	if len(input) == 0 {
		return nil
	}
	frame := append([]byte{api.ChannelStdin}, input...)
	s.sent.Add(int64(len(frame)))
	return s.conn.WriteMessage(websocket.BinaryMessage, frame)
}

func (s *sender) resize() error {
	return s.message(api.ExecMessage{Kind: "resize", Cols: s.a.size.Cols, Rows: s.a.size.Rows})
}

func (s *sender) message(m api.ExecMessage) error {
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.conn.WriteMessage(websocket.TextMessage, raw)
}

// ping keeps the link in use, and gives up one that is silent.
func (s *sender) ping() error {
	silent := time.Since(time.Unix(0, s.last.Load()))
	if silent > deadAfter && s.sent.Load() < bulk {
		return errSilent
	}
	return s.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(pingEvery))
}
