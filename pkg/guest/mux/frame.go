package mux

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Sizes of the wire, in bytes.
const (
	// MaxMessage bounds one WebSocket message in either direction.
	MaxMessage = 4 << 20
	// Window is how much of a stream may be on its way and unread.
	Window = 256 << 10
	// chunk is the largest payload put into one binary message, so that a
	// small answer never waits long behind a large stream.
	chunk = 32 << 10
	// maxStreams bounds the streams of one call.
	maxStreams = 4
)

// ErrProtocol says that the other end broke the rules of the wire.
var ErrProtocol = errors.New("protocol violation")

// flags of a binary message.
type flags byte

const (
	flagFin    flags = 1 << iota // no more bytes come this way
	flagReset                    // both ways end now; the payload is a JSON guest.Error
	flagCredit                   // the payload is a varint: so many more bytes may be sent
	flagStop                     // the receiver wants no more bytes
	flagsAll   = flagFin | flagReset | flagCredit | flagStop
)

// envelope is any text message.
type envelope struct {
	ID      uint64          `json:"id,omitempty"`
	Op      string          `json:"op,omitempty"`
	Event   string          `json:"event,omitempty"`
	Cancel  bool            `json:"cancel,omitempty"`
	Timeout time.Duration   `json:"timeout_ns,omitempty"`
	Streams []uint64        `json:"streams,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *guest.Error    `json:"error,omitempty"`
	// End says that every stream of the call ended with this answer.
	End bool `json:"end,omitempty"`
}

func parseEnvelope(b []byte) (envelope, error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return envelope{}, fmt.Errorf("decode envelope: %w: %w", err, ErrProtocol)
	}
	if e.Event == "" && e.ID == 0 {
		return envelope{}, fmt.Errorf("decode envelope without id: %w", ErrProtocol)
	}
	if len(e.Streams) > maxStreams {
		return envelope{}, fmt.Errorf("decode envelope with %d streams: %w", len(e.Streams), ErrProtocol)
	}
	return e, nil
}

func appendHeader(b []byte, stream uint64, f flags) []byte {
	return append(binary.AppendUvarint(b, stream), byte(f))
}

func parseFrame(b []byte) (stream uint64, f flags, payload []byte, err error) {
	stream, n := binary.Uvarint(b)
	if n <= 0 || stream == 0 || len(b) == n {
		return 0, 0, nil, fmt.Errorf("decode stream header: %w", ErrProtocol)
	}
	f = flags(b[n])
	if f&^flagsAll != 0 {
		return 0, 0, nil, fmt.Errorf("decode stream flags %#x: %w", byte(f), ErrProtocol)
	}
	return stream, f, b[n+1:], nil
}

func parseCredit(b []byte) (int64, error) {
	v, n := binary.Uvarint(b)
	if n <= 0 || n != len(b) || v == 0 || v > Window {
		return 0, fmt.Errorf("decode credit: %w", ErrProtocol)
	}
	return int64(v), nil
}

func parseReset(b []byte) *guest.Error {
	e := &guest.Error{}
	if err := json.Unmarshal(b, e); err != nil || e.Code == "" {
		return &guest.Error{Code: guest.CodeCancelled, Message: "stream reset by the other end"}
	}
	return e
}
