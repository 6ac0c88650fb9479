package rfbserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// Config is what one client gets. Source is required.
type Config struct {
	// Name is the title of the screen.
	Name string
	// Source is what it sees.
	Source desktop.Source
	// Input takes its keys and pointer; nil: they are dropped. An error of an event
	// is told to the client by its bell.
	Input desktop.Input
	// Paste takes its clipboard; nil: it is dropped.
	Paste func(ctx context.Context, text string) error
	// Copies are texts for its clipboard; nil: there are none.
	Copies <-chan string
	// Resize changes the size of the screen; nil: it is refused.
	Resize func(ctx context.Context, size image.Point) error
	// Handshake is how long the client may take to begin. Default 10 s.
	Handshake time.Duration
}

const (
	// framePause is the least time between two updates.
	framePause = time.Second / 30
	// maxPending bounds events that wait for Input.
	maxPending = 256
)

// Serve speaks with a client until it goes away, ctx ends, or the source fails, and
// returns when all that it started has ended. It closes conn. A client that leaves
// in order is no error.
func Serve(ctx context.Context, conn io.ReadWriteCloser, cfg Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	s := &session{
		cfg: cfg, conn: conn, wake: make(chan struct{}, 1), wanted: make(chan uint64, 1), events: make(chan message, maxPending),
		enc: encoder{format: natural()},
	}
	if err := s.greet(ctx); err != nil {
		return over(ctx, err)
	}
	var wait sync.WaitGroup
	wait.Go(func() { cancel(s.read(ctx)) })
	wait.Go(func() { s.act(ctx) })
	wait.Go(func() {
		if err := s.watch(ctx); err != nil {
			cancel(err)
		}
	})
	err := s.show(ctx)
	cancel(err)
	_ = conn.Close()
	wait.Wait()
	return over(ctx, err)
}

// over is why a session ended.
func over(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// session is one client's connection.
type session struct {
	cfg  Config
	conn io.ReadWriteCloser
	enc  encoder     // of show alone
	size image.Point // at the beginning

	wake   chan struct{} // holds a token when there may be something to send
	wanted chan uint64   // show wants a frame newer than this one
	events chan message  // for act

	mu    sync.Mutex
	state state // guarded by mu
}

// state is what reader and writer share.
type state struct {
	format     *format // the client has changed it
	kind       int32   // encoding of pixels
	known      map[int32]bool
	told       bool // of what the server knows
	request    *updateRequest
	continuous *continuous
	unanswered int            // fences that were sent
	answers    [][]byte       // messages to be sent as they are
	resized    []byte         // answer to a change of size: reason and status
	newest     *desktop.Frame // nil: none that was not sent
	fetching   bool           // watch is on its way
	present    bool           // the present frame is wanted, not a newer one
	waited     bool           // watch has waited in vain
	interrupt  func()         // ends the wait of watch; nil while it does not wait
	acted      time.Time      // when the client's last event came
	bell       bool
}

// poke lets show look at the state.
func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *session) change(fn func(*state)) {
	s.mu.Lock()
	fn(&s.state)
	s.mu.Unlock()
	s.poke()
}

const version = "RFB 003.008\n"

// greet does the handshake (RFC 6143, 7.1 to 7.3).
func (s *session) greet(ctx context.Context) error {
	f, err := s.cfg.Source.Frame(ctx)
	if err != nil {
		return fmt.Errorf("look at the screen: %w", err)
	}
	limit := s.cfg.Handshake
	if limit == 0 {
		limit = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.conn.Close() })
	defer stop()
	if err := s.secure(); err != nil {
		return err
	}
	if _, err := (reader{s.conn}).take(1); err != nil { // shared: it always is
		return err
	}
	size := f.Image.Rect.Size()
	s.size = size
	init := binary.BigEndian.AppendUint16(nil, uint16(size.X))
	init = binary.BigEndian.AppendUint16(init, uint16(size.Y))
	init = append(init, s.enc.format.wire()...)
	init = binary.BigEndian.AppendUint32(init, uint32(len(s.cfg.Name)))
	return s.write(append(init, s.cfg.Name...))
}

// secure agrees on a version and on no security.
func (s *session) secure() error {
	if err := s.write([]byte(version)); err != nil {
		return err
	}
	said, err := (reader{s.conn}).take(len(version))
	if err != nil {
		return err
	}
	switch string(said) {
	case "RFB 003.003\n", "RFB 003.005\n":
		return s.write([]byte{0, 0, 0, 1})
	case "RFB 003.007\n", version, "RFB 003.889\n":
	default:
		return malformed("version %q", said)
	}
	if err := s.write([]byte{1, 1}); err != nil {
		return err
	}
	kind, err := (reader{s.conn}).take(1)
	if err != nil {
		return err
	}
	if kind[0] != 1 {
		return malformed("security type %d was not offered", kind[0])
	}
	if string(said) == "RFB 003.007\n" {
		return nil
	}
	return s.write([]byte{0, 0, 0, 0})
}

func (s *session) write(b []byte) error {
	if _, err := s.conn.Write(b); err != nil {
		return fmt.Errorf("write to the client: %w", err)
	}
	return nil
}
