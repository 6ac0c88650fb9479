package gate

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Body reads a request's body with a deadline for each part, so that a client
// that stalls cannot hold a request for ever while one that goes on slowly may.
// The deadline is taken back at the end: net/http watches the connection from
// then on, and a deadline left behind would cancel the request.
type Body struct {
	body    io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
	until   time.Time // zero: as long as it takes
	left    int64     // bytes that may still come; negative: no limit
	limit   int64
}

// NewBody bounds a body: idle is how long each part may take to come, total the
// whole (0: no bound), limit its size in bytes (0: no bound).
func NewBody(w http.ResponseWriter, r *http.Request, idle, total time.Duration, limit int64) *Body {
	b := &Body{body: r.Body, control: http.NewResponseController(w), idle: idle, left: -1, limit: limit}
	if total > 0 {
		b.until = time.Now().Add(total)
	}
	if limit > 0 {
		b.left = limit
	}
	return b
}

// Read implements io.Reader. Its errors have codes: too_large, deadline,
// cancelled.
func (b *Body) Read(p []byte) (int, error) {
	if b.left >= 0 && int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more than allowed tells that there is more
	}
	deadline := time.Now().Add(b.idle)
	if !b.until.IsZero() && b.until.Before(deadline) {
		deadline = b.until
	}
	timed := b.control.SetReadDeadline(deadline) == nil
	n, err := b.body.Read(p)
	if timed {
		_ = b.control.SetReadDeadline(time.Time{}) // worked a moment ago
	}
	if b.left >= 0 {
		if int64(n) > b.left {
			return 0, tooLarge(b.limit)
		}
		b.left -= int64(n)
	}
	return n, b.explain(err)
}

func tooLarge(limit int64) error {
	return api.Errorf(api.CodeTooLarge, "the body is over %d bytes", limit)
}

func (b *Body) explain(err error) error {
	var timeout interface{ Timeout() bool }
	var big *http.MaxBytesError
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return err
	case errors.As(err, &big):
		return tooLarge(big.Limit)
	case errors.As(err, &timeout) && timeout.Timeout():
		return api.Errorf(api.CodeDeadline, "the body stalled for %s", b.idle)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the client went away within the body: %w", api.Errorf(api.CodeCancelled, "the client went away within the body"))
	}
	return api.Errorf(api.CodeCancelled, "read body: %s", err)
}

// Close implements io.Closer.
func (b *Body) Close() error { return b.body.Close() }
