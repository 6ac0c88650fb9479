package link

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/deskfork/deskfork/pkg/api"
)

// channel is one output stream of an exec, written exactly once whatever the
// links do.
type channel struct {
	name string
	w    io.Writer
	at   int64 // offset of the next byte wanted
	skip int64 // bytes that come once more
}

// begin takes the offset of the first byte of a link.
func (c *channel) begin(from int64) (gap *GapError) {
	c.skip = 0
	switch {
	case c.at < 0: // FromKept
		c.at = from
	case from < c.at:
		c.skip = c.at - from
	case from > c.at:
		gap = &GapError{Stream: c.name, From: c.at, To: from}
		c.at = from
	}
	return gap
}

func (c *channel) write(data []byte) error {
	if c.skip > 0 {
		n := min(c.skip, int64(len(data)))
		c.skip -= n
		data = data[n:]
	}
	if len(data) == 0 {
		return nil
	}
	c.at += int64(len(data))
	if c.w == nil {
		return nil
	}
	if _, err := c.w.Write(data); err != nil {
		return &localError{fmt.Errorf("write %s: %w", c.name, err)}
	}
	return nil
}

// localError is a fault of this side, which no new link mends.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

func decodeExec(data []byte) (api.ExecMessage, error) {
	var m api.ExecMessage
	if err := json.Unmarshal(data, &m); err != nil {
		return m, api.Errorf(api.CodeInternal, "server sent a malformed message: %v", err)
	}
	switch {
	case (m.Kind == "end" || m.Kind == "attached") && m.Status == nil:
		return m, api.Errorf(api.CodeInternal, "server sent %q without a status", m.Kind)
	case m.Kind == "error" && m.Error == nil:
		return m, api.Errorf(api.CodeInternal, "server sent an error without one")
	}
	return m, nil
}

// readInput reads r in chunks until its end or that of ctx; only its own end
// closes the channel. A Read that blocks is not waited for.
func readInput(ctx context.Context, r io.Reader) <-chan []byte {
	chunks := make(chan []byte)
	go func() {
		for {
			buf := make([]byte, 32<<10)
			n, err := r.Read(buf)
			if n > 0 {
				select {
				case chunks <- buf[:n]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				if ctx.Err() == nil {
					close(chunks)
				}
				return
			}
		}
	}()
	return chunks
}
