package qmp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/digitalocean/go-qemu/qmp"
)

// MaxLine is the longest message taken from QEMU, in bytes. Above it the
// connection ends with an error.
const MaxLine = 64 << 20

// Event is an asynchronous message of QEMU, in go-qemu's form.
type Event = qmp.Event

// Version is QEMU's version as its greeting tells it.
type Version = qmp.Version

type request struct {
	Execute   string `json:"execute"`
	Arguments any    `json:"arguments,omitempty"`
	ID        uint64 `json:"id"`
}

// message is any line of QEMU: greeting, reply, refusal or event.
type message struct {
	QMP *struct {
		Version      Version           `json:"version"`
		Capabilities []json.RawMessage `json:"capabilities"`
	} `json:"QMP"`
	ID     *uint64         `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event string `json:"event"`
	raw   []byte
}

var errLongLine = errors.New("line too long")

// readMessage reads one non-empty line of at most limit bytes.
func readMessage(r *bufio.Reader, limit int) (*message, error) {
	for {
		line, err := readLine(r, limit)
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		m := &message{raw: line}
		if err := json.Unmarshal(line, m); err != nil {
			return nil, fmt.Errorf("parse qmp message %.80q: %w", line, err)
		}
		return m, nil
	}
}

func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, fmt.Errorf("read qmp message above %d bytes: %w", limit, errLongLine)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// event decodes the message again in the form of go-qemu.
func (m *message) event() (Event, error) {
	var e Event
	if err := json.Unmarshal(m.raw, &e); err != nil {
		return e, fmt.Errorf("parse qmp event %s: %w", m.Event, err)
	}
	return e, nil
}
