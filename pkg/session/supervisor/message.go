package supervisor

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/deskfork/deskfork/pkg/session"
)

// MaxLine bounds one message in bytes, its newline included.
const MaxLine = 64 << 10

// MaxText bounds each id and message in bytes.
const MaxText = 4096

// Types of commands, host to guest.
const (
	Start             = "start"
	Drain             = "drain"
	CheckpointRequest = "checkpoint.request"
	CheckpointCommit  = "checkpoint.commit"
	CheckpointReject  = "checkpoint.reject"
	Stop              = "stop"
)

// Types of events, guest to host.
const (
	Ready               = "ready"
	Heartbeat           = "heartbeat"
	Checkpoint          = "checkpoint"
	CheckpointCommitted = "checkpoint.committed"
	Completed           = "completed"
	Drained             = "drained"
	Failure             = "error"
)

// Reasons of stop.
const (
	StopAborted = "aborted"
	StopFailed  = "failed"
)

// Harness names what the supervisor starts.
type Harness struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

// Command is a message to the guest; Type says which members count.
type Command struct {
	Type          string         `json:"type"`
	Scope         *session.Scope `json:"scope,omitempty"`
	Harness       *Harness       `json:"harness,omitempty"`
	WorkspacePath string         `json:"workspacePath,omitempty"`
	// OutputPath is null without outputs.
	OutputPath   *string `json:"outputPath,omitempty"`
	RequestID    string  `json:"requestId,omitempty"`
	CheckpointID string  `json:"checkpointId,omitempty"`
	Message      string  `json:"message,omitempty"`
	Reason       string  `json:"reason,omitempty"`
}

// Event is a message to the host; Type says which members count.
type Event struct {
	Type         string `json:"type"`
	Protocol     string `json:"protocol,omitempty"`
	Sequence     *int64 `json:"sequence,omitempty"`
	CheckpointID string `json:"checkpointId,omitempty"`
	SessionID    string `json:"sessionId,omitempty"`
	TurnID       string `json:"turnId,omitempty"`
	RequestID    string `json:"requestId,omitempty"`
	ExitCode     *int   `json:"exitCode,omitempty"`
	Message      string `json:"message,omitempty"`
}

// Validate refuses commands without what their type needs.
func (c Command) Validate() error {
	var ok bool
	switch c.Type {
	case Start:
		ok = c.Scope != nil && c.Scope.Validate() == nil && c.Harness != nil && c.Harness.ID != "" && c.WorkspacePath != ""
	case Drain:
		ok = true
	case CheckpointRequest:
		ok = c.RequestID != ""
	case CheckpointCommit, CheckpointReject:
		ok = c.CheckpointID != ""
	case Stop:
		ok = c.Reason == StopAborted || c.Reason == StopFailed
	default:
		return fmt.Errorf("command of unknown type %.40q", c.Type)
	}
	return complete("command", c.Type, ok, c.RequestID, c.CheckpointID, c.Message)
}

// Validate refuses events without what their type needs.
func (e Event) Validate() error {
	var ok bool
	switch e.Type {
	case Ready:
		ok = e.Protocol != ""
	case Heartbeat:
		ok = e.Sequence != nil && *e.Sequence >= 0
	case Checkpoint:
		ok = e.CheckpointID != "" && e.SessionID != ""
	case CheckpointCommitted:
		ok = e.RequestID != ""
	case Completed:
		ok = e.ExitCode != nil
	case Drained:
		ok = true
	case Failure:
		ok = e.Message != ""
	default:
		return fmt.Errorf("event of unknown type %.40q", e.Type)
	}
	return complete("event", e.Type, ok, e.Protocol, e.CheckpointID, e.SessionID, e.TurnID, e.RequestID, e.Message)
}

func complete(kind, typ string, ok bool, texts ...string) error {
	if !ok {
		return fmt.Errorf("%s %s lacks what it needs", kind, typ)
	}
	for _, t := range texts {
		if len(t) > MaxText {
			return fmt.Errorf("%s %s holds a text of %d bytes, at most %d are allowed", kind, typ, len(t), MaxText)
		}
	}
	return nil
}

// message is a command or an event.
type message interface{ Validate() error }

// Encode writes one message as one write.
func Encode(w io.Writer, m message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) >= MaxLine {
		return fmt.Errorf("message of %d bytes, at most %d are allowed", len(b)+1, MaxLine)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Decoder reads messages, however the bytes arrive.
type Decoder[M message] struct{ lines *bufio.Reader }

// NewDecoder reads from r.
func NewDecoder[M message](r io.Reader) *Decoder[M] {
	return &Decoder[M]{lines: bufio.NewReaderSize(r, MaxLine)}
}

// Next gives the next message; io.EOF when the stream ends between two, and
// io.ErrUnexpectedEOF when it ends within one. After any error the stream is of no
// more use.
func (d *Decoder[M]) Next() (M, error) {
	var m M
	for {
		line, err := d.lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return m, fmt.Errorf("a line is longer than %d bytes", MaxLine)
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0:
			return m, io.ErrUnexpectedEOF
		case err != nil:
			return m, err
		}
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !utf8.Valid(line) {
			return m, errors.New("a line is not UTF-8")
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return m, fmt.Errorf("a line is no message: %w", err)
		}
		return m, m.Validate()
	}
}
