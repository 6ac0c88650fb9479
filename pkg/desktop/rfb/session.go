package rfb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"image"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/desktop"
)

// session is one connection after its handshake.
type session struct {
	conn    net.Conn
	name    string
	qemu    bool
	timeout time.Duration
	dec     *decoder // the reader's alone
	wmu     sync.Mutex

	// Guarded by Client.mu.
	started    bool // a first whole frame came
	incomplete bool // part of the screen is not known
	size       image.Point
	extKeys    bool
	relative   bool
}

// connect dials and greets the server.
func (c *Client) connect(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	conn, err := c.cfg.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dial display: %w: %w", desktop.ErrDisconnect, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	s, err := c.greet(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, disconnected("greet display", err)
	}
	return s, nil
}

func (c *Client) greet(conn net.Conn) (*session, error) {
	lim := limits{side: 16384, pixels: c.cfg.MaxPixels}
	g, err := handshake(conn, lim)
	if err != nil {
		return nil, err
	}
	s := &session{
		conn: conn, name: g.name, qemu: strings.HasPrefix(g.name, "QEMU"), timeout: c.cfg.Timeout,
		incomplete: true, size: image.Pt(g.width, g.height),
	}
	s.dec = &decoder{r: bufio.NewReaderSize(conn, 64<<10), limits: lim, qemu: s.qemu}
	s.dec.scr.claim = c.claim
	s.dec.scr.resize(g.width, g.height)
	pixels := []int32{encRaw, encZRLE, encCopyRect}
	if c.cfg.Compress {
		pixels = []int32{encZRLE, encCopyRect, encRaw}
	}
	b := appendPixelFormat(nil)
	b = appendEncodings(b, append(pixels, encAlphaCursor, encRichCursor, encPointerPos, encDesktopSize,
		encLastRect, encPointerType, encExtKeys, encLEDState))
	if _, err := conn.Write(b); err != nil {
		return nil, fmt.Errorf("write set encodings: %w", err)
	}
	return s, nil
}

// write sends b whole. Whatever goes wrong ends the connection, because a
// message that was cut cannot be taken back.
func (s *session) write(ctx context.Context, b []byte) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("write to display: %w", err)
	}
	s.wmu.Lock()
	defer s.wmu.Unlock()
	deadline := time.Now().Add(s.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	err := s.conn.SetWriteDeadline(deadline)
	if err == nil {
		_, err = s.conn.Write(b)
	}
	if err != nil {
		s.conn.Close()
		return disconnected("write to display", err)
	}
	return nil
}

// request asks for the screen, full or just enough to prove that nothing is
// missing; size is the screen's.
func (s *session) request(ctx context.Context, full, wake bool, size image.Point) error {
	var b []byte
	if wake {
		b = appendExtKey(b, desktop.Key{}, false)
	}
	switch {
	case full:
		b = appendUpdateRequest(b, false, size.X, size.Y)
	case s.qemu:
		b = appendUpdateRequest(b, false, 1, 1)
	default:
		b = appendUpdateRequest(b, true, size.X, size.Y)
		b = appendUpdateRequest(b, false, 1, 1)
	}
	return s.write(ctx, b)
}

// disconnected makes err match desktop.ErrDisconnect.
func disconnected(doing string, err error) error {
	if errors.Is(err, desktop.ErrDisconnect) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, desktop.ErrDisconnect, err)
}
