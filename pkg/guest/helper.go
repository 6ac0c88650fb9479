package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// The wire between guestd and its helper is a pair of pipes (the helper's
// standard input and output). Both directions carry frames:
//
//	4 bytes  big-endian length of what follows (kind and payload)
//	1 byte   kind: 'J' or 'B'
//	n bytes  payload
//
// A 'J' frame holds one HelperMessage as JSON. If its member "binary" is true,
// the very next frame is a 'B' frame: 8 bytes big-endian id of that message,
// then its bytes. guestd sends requests (Op set), the helper answers each with
// one message of the same id (Result or Error set), in any order. The first
// message of the helper is unasked: id 0 with a HelperHello as its Result; it
// is sent when the display is open and every operation can be served. Further
// ones of id 0 tell unasked what has changed: Op says of what, Result what it is
// now. That is OpBrowsing with a Browsing; none was told yet: nothing is open.
const (
	helperKindJSON   = 'J'
	helperKindBinary = 'B'
	helperHeader     = 4
	helperIDSize     = 8
	// HelperMaxFrame bounds one frame in bytes, kind included. It holds a raw
	// 7680x4320 RGBA screen.
	HelperMaxFrame = 1 + helperIDSize + 7680*4320*4
)

// OpCancel asks the helper to give up the request whose id it carries. It is
// never answered itself; the request given up still is.
const OpCancel = "cancel"

// HelperHello is the first thing a helper says.
type HelperHello struct {
	Protocol int    `json:"protocol"` // HelperProtocol
	Display  string `json:"display"`  // e.g. :0
	PID      int    `json:"pid"`
	// Missing names operations that this session cannot serve and why.
	Missing []string `json:"missing,omitempty"`
}

// HelperProtocol is the version of the helper's wire.
const HelperProtocol = 1

// HelperMessage is one request or one answer between guestd and its helper.
type HelperMessage struct {
	ID      uint64          `json:"id"`
	Op      string          `json:"op,omitempty"` // of a request, or of what is told unasked
	Params  json.RawMessage `json:"params,omitempty"`
	Timeout time.Duration   `json:"timeout_ns,omitempty"` // of a request; 0: none
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
	// Binary travels beside the JSON: pixels and clipboard contents. Nil and
	// empty differ.
	Binary []byte `json:"-"`
}

// ErrFrame says that the other end broke the framing; the connection is of no
// further use.
var ErrFrame = errors.New("malformed frame")

// HelperConn reads and writes helper messages.
type HelperConn struct {
	r  io.Reader
	mu sync.Mutex // orders writes
	w  io.Writer
}

// NewHelperConn frames messages over r and w.
func NewHelperConn(r io.Reader, w io.Writer) *HelperConn {
	return &HelperConn{r: r, w: w}
}

type helperEnvelope struct {
	HelperMessage
	HasBinary bool `json:"binary,omitempty"`
}

// Write sends one message. It may be called by many goroutines at once.
func (c *HelperConn) Write(m HelperMessage) error {
	body, err := json.Marshal(helperEnvelope{HelperMessage: m, HasBinary: m.Binary != nil})
	if err != nil {
		return fmt.Errorf("encode helper message: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.writeFrame(helperKindJSON, nil, body); err != nil {
		return err
	}
	if m.Binary == nil {
		return nil
	}
	return c.writeFrame(helperKindBinary, binary.BigEndian.AppendUint64(nil, m.ID), m.Binary)
}

func (c *HelperConn) writeFrame(kind byte, prefix, payload []byte) error {
	n := 1 + len(prefix) + len(payload)
	if n > HelperMaxFrame {
		return fmt.Errorf("write helper frame of %d bytes: above the limit of %d: %w", n, HelperMaxFrame, ErrFrame)
	}
	head := binary.BigEndian.AppendUint32(make([]byte, 0, helperHeader+1+len(prefix)), uint32(n))
	head = append(append(head, kind), prefix...)
	if len(payload) <= 64<<10 {
		head, payload = append(head, payload...), nil
	}
	if _, err := c.w.Write(head); err != nil {
		return fmt.Errorf("write helper frame: %w", err)
	}
	if len(payload) == 0 {
		return nil
	}
	if _, err := c.w.Write(payload); err != nil {
		return fmt.Errorf("write helper frame: %w", err)
	}
	return nil
}

// Read returns the next message. It must be called by one goroutine at a time.
// At a clean end of the stream it returns io.EOF, after broken framing an
// error that is ErrFrame.
func (c *HelperConn) Read() (HelperMessage, error) {
	kind, body, err := c.readFrame()
	if err != nil {
		return HelperMessage{}, err
	}
	if kind != helperKindJSON {
		return HelperMessage{}, fmt.Errorf("read helper frame of kind %q out of turn: %w", kind, ErrFrame)
	}
	var env helperEnvelope
	if err := json.Unmarshal(body, &env); err != nil {
		return HelperMessage{}, fmt.Errorf("decode helper message: %w: %w", err, ErrFrame)
	}
	if !env.HasBinary {
		return env.HelperMessage, nil
	}
	kind, body, err = c.readFrame()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return HelperMessage{}, err
	}
	if kind != helperKindBinary || len(body) < helperIDSize || binary.BigEndian.Uint64(body) != env.ID {
		return HelperMessage{}, fmt.Errorf("read bytes of helper message %d: %w", env.ID, ErrFrame)
	}
	env.Binary = body[helperIDSize:]
	return env.HelperMessage, nil
}

func (c *HelperConn) readFrame() (byte, []byte, error) {
	var head [helperHeader]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return 0, nil, io.EOF
		}
		return 0, nil, fmt.Errorf("read helper frame: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 1 || n > HelperMaxFrame {
		return 0, nil, fmt.Errorf("read helper frame of %d bytes: %w", n, ErrFrame)
	}
	body, err := readGrowing(c.r, int(n))
	if err != nil {
		return 0, nil, fmt.Errorf("read helper frame: %w", err)
	}
	return body[0], body[1:], nil
}

// readGrowing reads exactly n bytes without trusting n before they come.
func readGrowing(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	buf := make([]byte, 0, min(n, step))
	for len(buf) < n {
		if len(buf) == cap(buf) {
			grown := make([]byte, len(buf), min(n, 2*cap(buf)))
			copy(grown, buf)
			buf = grown
		}
		m, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+m]
		if err != nil {
			return nil, io.ErrUnexpectedEOF
		}
	}
	return buf, nil
}
