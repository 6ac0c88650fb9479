package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Body reads a request's body with a deadline for each part, so that a client
// that stalls cannot hold a request for ever while one that goes on slowly may.
// The deadline is taken back at the end: net/http watches the connection from
// then on, and a deadline left behind would cancel the request. The end of the
// request's context ends a read that waits.
type Body struct {
	body    io.ReadCloser
	ctx     context.Context
	stop    func() bool
	control *http.ResponseController
	idle    time.Duration
	until   time.Time // zero: as long as it takes
	left    int64     // bytes that may still come; negative: no limit
	limit   int64

	mu      sync.Mutex // held while a deadline is set
	reading bool       // guarded by mu; a read waits
	ended   bool       // guarded by mu; ctx is over
}

// NewBody bounds a body: idle is how long each part may take to come, total the
// whole (0: no bound), limit its size in bytes (0: no bound). Release is called
// when the request has been served.
func NewBody(w http.ResponseWriter, r *http.Request, idle, total time.Duration, limit int64) *Body {
	b := &Body{body: r.Body, ctx: r.Context(), control: http.NewResponseController(w), idle: idle, left: -1, limit: limit}
	if total > 0 {
		b.until = time.Now().Add(total)
	}
	if limit > 0 {
		b.left = limit
	}
	b.stop = context.AfterFunc(r.Context(), b.end)
	return b
}

// Release lets go of the request's context.
func (b *Body) Release() { b.stop() }

// end ends a read that waits, and all that come after it.
func (b *Body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.reading {
		_ = b.control.SetReadDeadline(time.Unix(1, 0)) // what knows no deadlines is not of a network
	}
}

// begin gives the next read its deadline. ok is false when all is over.
func (b *Body) begin(deadline time.Time) (ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended || b.ctx.Err() != nil {
		return false
	}
	b.reading = b.control.SetReadDeadline(deadline) == nil
	return true
}

// finish takes the deadline of a read back.
func (b *Body) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reading && !b.ended {
		_ = b.control.SetReadDeadline(time.Time{}) // worked a moment ago
	}
	b.reading = false
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
	if !b.begin(deadline) {
		return 0, Why(b.ctx, b.ctx.Err())
	}
	n, err := b.body.Read(p)
	b.finish()
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
	case b.ctx.Err() != nil:
		return Why(b.ctx, b.ctx.Err())
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
