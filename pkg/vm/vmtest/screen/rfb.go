package screen

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"io"
	"net"
	"slices"
	"sync"
)

// The part of RFC 6143 that a synthetic screen needs: version 3.8, no security,
// raw encoding at 32 bits a pixel, and QEMU's extended key events.
const (
	// Version is what an RFB server says first.
	Version = "RFB 003.008\n"

	bytesPerPixel = 4

	msgSetPixelFormat = 0
	msgSetEncodings   = 2
	msgUpdateRequest  = 3
	msgKey            = 4
	msgPointer        = 5
	msgCut            = 6
	msgQEMU           = 255

	encodingRaw         = 0
	encodingExtendedKey = -258

	maxCut = 1 << 20
)

// pixelFormat: 32 bits, depth 24, little endian, true colour, blue lowest.
func pixelFormat() []byte {
	return []byte{32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0}
}

// session is one RFB connection.
type session struct {
	s    *Screen
	conn net.Conn
	r    *bufio.Reader

	mu       sync.Mutex // guards writing and what follows
	extended bool       // the client knows extended key events and was not told yet
	sent     uint64     // sequence number of the last update of the whole screen; of updates alone
}

type updateRequest struct {
	incremental bool
	rect        image.Rectangle
}

// Serve speaks RFB until the connection ends.
func (s *Screen) Serve(conn net.Conn) {
	c := &session{s: s, conn: conn, r: bufio.NewReader(conn)}
	requests := make(chan updateRequest, 16)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { c.updates(requests, ended) })
	if err := c.handshake(); err == nil {
		for err == nil {
			err = c.message(requests)
		}
	}
	close(ended)
	conn.Close()
	wg.Wait()
}

func (c *session) read(n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := io.ReadFull(c.r, b)
	return b, err
}

func (c *session) handshake() error {
	if _, err := io.WriteString(c.conn, Version); err != nil {
		return err
	}
	if v, err := c.read(len(Version)); err != nil || string(v) != Version {
		return fmt.Errorf("client version %q: %w", v, errors.Join(err, errors.ErrUnsupported))
	}
	if _, err := c.conn.Write([]byte{1, 1}); err != nil { // one type: none
		return err
	}
	if t, err := c.read(1); err != nil || t[0] != 1 {
		return fmt.Errorf("security type %v: %w", t, errors.Join(err, errors.ErrUnsupported))
	}
	if _, err := c.conn.Write([]byte{0, 0, 0, 0}); err != nil {
		return err
	}
	if _, err := c.read(1); err != nil { // shared flag
		return err
	}
	const name = "fake"
	b := c.s.img.Bounds()
	init := binary.BigEndian.AppendUint16(nil, uint16(b.Dx()))
	init = binary.BigEndian.AppendUint16(init, uint16(b.Dy()))
	init = append(init, pixelFormat()...)
	init = binary.BigEndian.AppendUint32(init, uint32(len(name)))
	_, err := c.conn.Write(append(init, name...))
	return err
}

func (c *session) message(requests chan<- updateRequest) error {
	kind, err := c.r.ReadByte()
	if err != nil {
		return err
	}
	switch kind {
	case msgSetPixelFormat:
		b, err := c.read(19)
		if err == nil && !slices.Equal(b[3:3+13], pixelFormat()[:13]) {
			err = fmt.Errorf("pixel format %v: %w", b[3:], errors.ErrUnsupported)
		}
		return err
	case msgSetEncodings:
		return c.setEncodings()
	case msgUpdateRequest:
		return c.updateRequest(requests)
	default:
		return c.input(kind)
	}
}

func (c *session) setEncodings() error {
	b, err := c.read(3)
	if err != nil {
		return err
	}
	list, err := c.read(4 * int(binary.BigEndian.Uint16(b[1:])))
	if err != nil {
		return err
	}
	for e := range slices.Chunk(list, 4) {
		if int32(binary.BigEndian.Uint32(e)) == encodingExtendedKey {
			c.mu.Lock()
			c.extended = true
			c.mu.Unlock()
		}
	}
	return nil
}

func (c *session) updateRequest(requests chan<- updateRequest) error {
	b, err := c.read(9)
	if err != nil {
		return err
	}
	at := func(i int) int { return int(binary.BigEndian.Uint16(b[i:])) }
	r := image.Rect(at(1), at(3), at(1)+at(5), at(3)+at(7)).Intersect(c.s.img.Bounds())
	select {
	case requests <- updateRequest{b[0] != 0, r}:
	default: // one of those that wait will answer
	}
	return nil
}

func (c *session) input(kind byte) error {
	switch kind {
	case msgKey:
		b, err := c.read(7)
		if err == nil {
			c.s.record(Event{Kind: "key", Down: b[0] != 0, Keysym: binary.BigEndian.Uint32(b[3:])})
		}
		return err
	case msgPointer:
		b, err := c.read(5)
		if err == nil {
			c.s.record(Event{
				Kind: "pointer", Buttons: b[0],
				X: int(binary.BigEndian.Uint16(b[1:])), Y: int(binary.BigEndian.Uint16(b[3:])),
			})
		}
		return err
	case msgCut:
		return c.cut()
	case msgQEMU:
		b, err := c.read(11)
		if err == nil && b[0] == 0 {
			c.s.record(Event{
				Kind: "key", Down: binary.BigEndian.Uint16(b[1:]) != 0,
				Keysym: binary.BigEndian.Uint32(b[3:]), Keycode: binary.BigEndian.Uint32(b[7:]),
			})
		}
		return err
	default:
		return fmt.Errorf("client message %d: %w", kind, errors.ErrUnsupported)
	}
}

func (c *session) cut() error {
	b, err := c.read(7)
	if err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(b[3:])
	if n > maxCut {
		return fmt.Errorf("cut text of %d bytes: %w", n, errors.ErrUnsupported)
	}
	text, err := c.read(int(n))
	if err == nil && n > 0 {
		c.s.record(Event{Kind: "cut", Text: string(text)})
	}
	return err
}

// updates answers requests. An incremental one waits for a change, and holds up no
// other meanwhile.
func (c *session) updates(requests <-chan updateRequest, ended <-chan struct{}) {
	var waiting image.Rectangle // of incremental requests; empty: none
	for {
		var changed <-chan struct{} // nil: nobody waits for it
		if !waiting.Empty() {
			pix, seq, next := c.s.look(waiting)
			if seq != c.sent {
				if c.update(waiting, pix, seq) != nil {
					return
				}
				waiting = image.Rectangle{}
				continue
			}
			changed = next
		}
		select {
		case q := <-requests:
			if q.incremental {
				waiting = waiting.Union(q.rect)
				continue
			}
			pix, seq, _ := c.s.look(q.rect)
			if c.update(q.rect, pix, seq) != nil {
				return
			}
		case <-changed:
		case <-ended:
			return
		}
	}
}

// update sends the pixels of a rectangle as they were at seq.
func (c *session) update(r image.Rectangle, pix []byte, seq uint64) error {
	if r == c.s.img.Bounds() {
		c.sent = seq
	}
	c.mu.Lock()
	extended := c.extended
	c.extended = false
	c.mu.Unlock()
	n := 1
	if extended {
		n = 2
	}
	out := []byte{0, 0, 0, byte(n)}
	if extended {
		out = rectHeader(out, image.Rectangle{}, encodingExtendedKey)
	}
	out = append(rectHeader(out, r, encodingRaw), pix...)
	_, err := c.conn.Write(out)
	return err
}

func rectHeader(out []byte, r image.Rectangle, encoding int32) []byte {
	for _, v := range []int{r.Min.X, r.Min.Y, r.Dx(), r.Dy()} {
		out = binary.BigEndian.AppendUint16(out, uint16(v))
	}
	return binary.BigEndian.AppendUint32(out, uint32(encoding))
}
