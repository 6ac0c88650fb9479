package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"

	"github.com/deskfork/deskfork/pkg/api"
)

// fault is an error of the way to the server: an *api.Error with its cause.
type fault struct {
	problem *api.Error
	cause   error
}

func (f *fault) Error() string   { return f.problem.Error() }
func (f *fault) Unwrap() []error { return []error{f.problem, f.cause} }

// fault gives an error of the transport a code.
func (c *Client) fault(ctx context.Context, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // its text holds the whole URL
	}
	cause := err
	if ctx.Err() != nil {
		cause = ctx.Err()
	}
	var p *api.Error
	switch {
	case errors.Is(cause, context.Canceled):
		p = api.Errorf(api.CodeCancelled, "call was cancelled")
	case errors.Is(cause, context.DeadlineExceeded):
		p = api.Errorf(api.CodeDeadline, "no answer from %s in time", c.base.Host)
	case errors.Is(err, syscall.ECONNREFUSED):
		p = api.Errorf(api.CodeRefused, "nothing listens at %s", c.base.Host)
		p.Hint = "start it with: vmhost serve"
	default:
		p = api.Errorf(api.CodeRefused, "talk to %s: %v", c.base.Host, err)
	}
	return &fault{problem: p, cause: fmt.Errorf("%w: %w", cause, err)}
}

// broken says that the way to the server broke, so that a repeatable call may
// be repeated.
func broken(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "read"
}
