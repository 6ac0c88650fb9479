package qmp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/digitalocean/go-qemu/qmp"
)

// Monitor adapts a connected client to go-qemu's contract, for code written
// against that.
type Monitor struct{ client *Client }

var _ qmp.Monitor = (*Monitor)(nil)

// Monitor returns the client in go-qemu's form.
func (c *Client) Monitor() *Monitor { return &Monitor{c} }

// Connect reports whether the connection, made by Dial, still stands.
func (m *Monitor) Connect() error { return m.client.Err() }

// Disconnect closes the client.
func (m *Monitor) Disconnect() error { return m.client.Close() }

// Run executes one encoded command and returns the encoded reply, under the
// client's timeout.
func (m *Monitor) Run(command []byte) ([]byte, error) {
	var cmd struct {
		Execute   string          `json:"execute"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(command, &cmd); err != nil {
		return nil, fmt.Errorf("parse qmp command: %w", err)
	}
	if cmd.Execute == "" {
		return nil, errors.New("parse qmp command: nothing to execute")
	}
	var args any
	if len(cmd.Arguments) > 0 {
		args = cmd.Arguments
	}
	reply, err := m.client.roundTrip(context.Background(), cmd.Execute, args, nil)
	if err != nil {
		return nil, err
	}
	return reply.raw, nil
}

// Events subscribes until ctx or the connection ends.
func (m *Monitor) Events(ctx context.Context) (<-chan qmp.Event, error) {
	s := m.client.Subscribe(eventQueue)
	context.AfterFunc(ctx, s.Close)
	return s.Events(), nil
}

const eventQueue = 256
