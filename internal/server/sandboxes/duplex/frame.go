package duplex

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
)

// Window is how far a sender may be ahead of what was acknowledged, in bytes of each
// stream.
const Window = 256 << 10

const (
	// header is a channel byte and an offset.
	header = 9
	// maxFrame bounds a binary message, in bytes.
	maxFrame = header + Window
)

// frame is one binary message.
type frame struct {
	channel byte
	seq     int64 // offset of the first byte
	data    []byte
}

// parseFrame reads a binary message; data is a part of b.
func parseFrame(b []byte) (frame, error) {
	if len(b) < header {
		return frame{}, fmt.Errorf("%w: a frame of %d bytes", stream.ErrProtocol, len(b))
	}
	if len(b) > maxFrame {
		return frame{}, fmt.Errorf("%w: a frame of more than %d bytes", stream.ErrProtocol, maxFrame)
	}
	f := frame{channel: b[0], data: b[header:]}
	if f.channel > api.ChannelStderr {
		return frame{}, fmt.Errorf("%w: channel %d", stream.ErrProtocol, f.channel)
	}
	seq := binary.BigEndian.Uint64(b[1:])
	if seq > math.MaxInt64-uint64(len(f.data)) {
		return frame{}, fmt.Errorf("%w: offset %d", stream.ErrProtocol, seq)
	}
	f.seq = int64(seq)
	return f, nil
}

// putHeader writes the header of a frame before its bytes.
func putHeader(b []byte, channel byte, seq int64) {
	b[0] = channel
	binary.BigEndian.PutUint64(b[1:], uint64(seq))
}

// ParseMessage reads a text message of a client.
func ParseMessage(text []byte) (api.ProcessMessage, error) {
	var m api.ProcessMessage
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%w: %w", stream.ErrProtocol, err)
	}
	if m.Seq < 0 || m.Stdin < 0 || m.Stdout < 0 || m.Stderr < 0 || m.GraceMS < 0 {
		return m, fmt.Errorf("%w: a negative number in %q", stream.ErrProtocol, m.Type)
	}
	return m, nil
}
