package mux_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

type message struct {
	binary bool
	body   []byte
}

// end is one end of a transport in memory. Its queue never fills: what the
// sessions hold back, they hold back themselves.
type end struct {
	mu     *sync.Mutex
	cond   *sync.Cond
	queue  []message
	closed error
	peer   *end
}

func pair() (a, b *end) {
	mu := &sync.Mutex{}
	cond := sync.NewCond(mu)
	a = &end{mu: mu, cond: cond}
	b = &end{mu: mu, cond: cond, peer: a}
	a.peer = b
	return a, b
}

func (e *end) Read() (bool, []byte, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue) == 0 {
		if e.closed != nil {
			return false, nil, e.closed
		}
		e.cond.Wait()
	}
	m := e.queue[0]
	e.queue = e.queue[1:]
	return m.binary, m.body, nil
}

func (e *end) Write(isBinary bool, head, body []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed != nil {
		return e.closed
	}
	e.peer.queue = append(e.peer.queue, message{isBinary, append(bytes.Clone(head), body...)})
	e.cond.Broadcast()
	return nil
}

func (e *end) Ping() error { return nil }

func (e *end) Close(reason error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed == nil {
		e.closed = errors.New("closed")
	}
	if e.peer.closed == nil {
		e.peer.closed = io.EOF
	}
	e.cond.Broadcast()
}

var _ mux.Conn = (*end)(nil)

// echo answers with its parameters, or serves its streams.
func echo(ctx context.Context, c *mux.Call) (any, error) {
	switch c.Op {
	case "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case "panic":
		panic("on purpose")
	case "copy":
		if err := c.Reply(nil); err != nil {
			return nil, err
		}
		_, err := io.Copy(struct{ io.Writer }{c.Streams[0]}, struct{ io.Reader }{c.Streams[0]})
		return nil, err
	case "sink":
		_, err := io.Copy(io.Discard, struct{ io.Reader }{c.Streams[0]})
		return nil, err
	case "stop":
		return nil, errors.Join(c.Reply(nil), c.Streams[0].CloseRead(), func() error { <-ctx.Done(); return nil }())
	case "large":
		return strings.Repeat("x", 2*mux.MaxMessage), nil
	}
	var v any
	return v, c.Decode(&v)
}

type handler func(context.Context, *mux.Call) (any, error)

func (h handler) Serve(ctx context.Context, c *mux.Call) (any, error) { return h(ctx, c) }

// start runs both ends until the test ends, and returns the caller's.
func start(t *testing.T, cfg mux.Config) (caller *mux.Session, wire *end) {
	t.Helper()
	a, b := pair()
	cfg.Conn, cfg.Handler = b, handler(echo)
	caller, server := mux.New(mux.Config{Conn: a}), mux.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = caller.Run(ctx) })
	running.Go(func() { _ = server.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return caller, a
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func call(t *testing.T, s *mux.Session, op string, ctx context.Context) error { //nolint:revive // the test comes first
	t.Helper()
	p, err := s.Open(ctx, op, nil, 0)
	if err != nil {
		return err
	}
	return p.Wait(ctx, nil)
}

func TestCalls(t *testing.T) {
	s, _ := start(t, mux.Config{})
	if err := call(t, s, "echo", soon(t)); err != nil {
		t.Error(err)
	}
	if err := call(t, s, "panic", soon(t)); !errors.Is(err, &guest.Error{Code: guest.CodeInternal}) {
		t.Errorf("panic: %v", err)
	}
	if err := call(t, s, "large", soon(t)); !errors.Is(err, &guest.Error{Code: guest.CodeInvalid}) {
		t.Errorf("large answer: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := call(t, s, "wait", short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("deadline: %v", err)
	}
}

func TestTooManyCalls(t *testing.T) {
	s, _ := start(t, mux.Config{MaxCalls: 8})
	ctx, stop := context.WithCancel(soon(t))
	var waiting sync.WaitGroup
	for range 8 {
		p, err := s.Open(ctx, "wait", nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		waiting.Go(func() {
			if err := p.Wait(ctx, nil); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		})
	}
	if err := call(t, s, "echo", soon(t)); !errors.Is(err, &guest.Error{Code: guest.CodeBusy}) {
		t.Errorf("one call too many: %v", err)
	}
	stop()
	waiting.Wait()
	for { // the places are free again
		if err := call(t, s, "echo", soon(t)); err == nil {
			return
		} else if !errors.Is(err, &guest.Error{Code: guest.CodeBusy}) {
			t.Fatal(err)
		}
	}
}

func TestStreams(t *testing.T) {
	s, _ := start(t, mux.Config{})
	p, err := s.Open(soon(t), "copy", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(soon(t), nil); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("deskfork"), 1<<18)
	var work sync.WaitGroup
	work.Go(func() {
		if _, err := p.Streams[0].Write(want); err != nil {
			t.Error(err)
		}
		if err := p.Streams[0].CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	got, err := io.ReadAll(p.Streams[0])
	work.Wait()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
	}
	if _, err := p.Streams[0].Write([]byte("x")); err == nil {
		t.Error("a write after the close succeeded")
	}
	stopped, err := s.Open(soon(t), "stop", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := stopped.Wait(soon(t), nil); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stopped.Streams[0].Write(make([]byte, 1000))
	}
	if !errors.Is(err, mux.ErrStopped) {
		t.Errorf("write to who does not read: %v", err)
	}
}

func TestWindowStopsTheSender(t *testing.T) {
	s, wire := start(t, mux.Config{})
	p, err := s.Open(soon(t), "copy", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	st := p.Streams[0]
	if err := st.SetWriteDeadline(time.Now().Add(200 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := st.Write(make([]byte, 64<<20))
	if err == nil || n > 3*mux.Window {
		t.Errorf("%d bytes went to who reads nothing back, %v", n, err)
	}
	if err := call(t, s, "echo", soon(t)); err != nil {
		t.Errorf("beside a full stream: %v", err)
	}
	wire.Close(nil)
	if _, err := io.Copy(io.Discard, st); !errors.Is(err, mux.ErrLinkLost) {
		t.Errorf("after the end of the link: %v", err)
	}
	if err := call(t, s, "echo", soon(t)); !errors.Is(err, mux.ErrNotSent) {
		t.Errorf("call after the end of the link: %v", err)
	}
}

func frame(stream uint64, flags byte, payload string) message {
	return message{true, append(append(binary.AppendUvarint(nil, stream), flags), payload...)}
}

func text(s string) message { return message{false, []byte(s)} }

// violations end the server's session with ErrProtocol.
func violations() map[string][]message {
	open := text(`{"id":1,"op":"wait","streams":[1]}`)
	return map[string][]message{
		"no json":        {text(`{`)},
		"no id":          {text(`{"op":"x"}`)},
		"answer":         {text(`{"id":1,"result":1}`)},
		"event":          {text(`{"event":"x"}`)},
		"id twice":       {text(`{"id":1,"op":"wait"}`), text(`{"id":1,"op":"wait"}`)},
		"stream twice":   {open, text(`{"id":2,"op":"wait","streams":[1]}`)},
		"stream zero":    {text(`{"id":2,"op":"wait","streams":[0]}`)},
		"many streams":   {text(`{"id":2,"op":"wait","streams":[1,2,3,4,5]}`)},
		"unknown stream": {open, frame(2, 0, "x")},
		"empty frame":    {{true, nil}},
		"no flags":       {{true, []byte{1}}},
		"odd flags":      {open, frame(1, 0xf0, "")},
		"endless varint": {{true, bytes.Repeat([]byte{0xff}, 20)}},
		"overrun":        {open, frame(1, 0, strings.Repeat("x", mux.Window+1))},
		"credit unsent":  {open, frame(1, 4, "\x01")},
		"credit garbage": {open, frame(1, 4, "")},
	}
}

func TestViolations(t *testing.T) {
	for name, messages := range violations() {
		t.Run(name, func(t *testing.T) {
			a, b := pair()
			server := mux.New(mux.Config{Conn: b, Handler: handler(echo)})
			for _, m := range messages {
				if err := a.Write(m.binary, m.body, nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := server.Run(soon(t)); !errors.Is(err, mux.ErrProtocol) {
				t.Errorf("got %v, want ErrProtocol", err)
			}
		})
	}
}

// FuzzSession throws messages at either end: whatever comes, Run returns.
func FuzzSession(f *testing.F) {
	for _, messages := range violations() {
		var in []byte
		for _, m := range messages {
			in = appendMessage(in, m)
		}
		f.Add(true, in)
	}
	good := appendMessage(nil, text(`{"id":1,"op":"copy","streams":[1]}`))
	good = appendMessage(good, frame(1, 0, "hello"))
	good = appendMessage(good, frame(1, 1, ""))
	f.Add(true, good)
	answers := appendMessage(nil, text(`{"id":1,"result":{}}`))
	answers = appendMessage(answers, frame(1, 0, "hello"))
	answers = appendMessage(answers, frame(1, 2, `{"code":"gone"}`))
	f.Add(false, answers)
	f.Add(false, appendMessage(nil, text(`{"id":1,"error":{"code":"busy"},"end":true}`)))
	f.Fuzz(func(t *testing.T, server bool, in []byte) {
		a, b := pair()
		cfg := mux.Config{Conn: b}
		if server {
			cfg.Handler = handler(func(ctx context.Context, c *mux.Call) (any, error) {
				if len(c.Streams) == 0 && c.Op == "copy" {
					return nil, nil
				}
				return echo(ctx, c)
			})
		}
		s := mux.New(cfg)
		var work sync.WaitGroup
		if !server {
			p, err := s.Open(t.Context(), "x", nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			work.Go(func() { _, _ = io.Copy(io.Discard, p.Streams[0]) })
			work.Go(func() { _ = p.Wait(t.Context(), nil) })
		}
		for len(in) > 2 {
			n := min(int(in[1]), len(in)-2)
			if a.Write(in[0]&1 == 1, in[2:2+n], nil) != nil {
				break
			}
			in = in[2+n:]
		}
		a.mu.Lock()
		b.closed = io.EOF // after what is queued
		a.cond.Broadcast()
		a.mu.Unlock()
		if s.Run(t.Context()) == nil {
			t.Error("the session ended without a reason")
		}
		work.Wait()
	})
}

func appendMessage(in []byte, m message) []byte {
	kind := byte(0)
	if m.binary {
		kind = 1
	}
	return append(append(in, kind, byte(len(m.body))), m.body...)
}
