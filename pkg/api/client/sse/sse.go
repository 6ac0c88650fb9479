// Package sse reads server-sent events (WHATWG HTML, section 9.2).
package sse

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
)

// Message is one event.
type Message struct {
	ID   string // that of the last message which had one
	Kind string // "" when not said
	Data string // lines are joined by a newline
}

// Decode reads the data as JSON.
func (m Message) Decode(into any) error {
	if err := json.Unmarshal([]byte(m.Data), into); err != nil {
		return fmt.Errorf("decode event: %w", err)
	}
	return nil
}

// Messages parses an event stream. It ends in an error, io.ErrUnexpectedEOF at
// the end of the stream: a server-sent stream has no end of its own. A line
// longer than 4 MiB is an error.
func Messages(r io.Reader) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 0, 4096), 4<<20)
		var m Message
		var data []string
		for lines.Scan() {
			line := lines.Text()
			if line == "" {
				if data == nil {
					m.Kind = ""
					continue
				}
				m.Data = strings.Join(data, "\n")
				if !yield(m, nil) {
					return
				}
				m, data = Message{ID: m.ID}, nil
				continue
			}
			name, value, _ := strings.Cut(line, ":")
			value = strings.TrimPrefix(value, " ")
			switch name {
			case "id":
				m.ID = value
			case "event":
				m.Kind = value
			case "data":
				data = append(data, value)
			}
		}
		err := lines.Err()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		yield(Message{}, err)
	}
}
