package mux

import (
	"context"
	"fmt"
	"maps"

	"github.com/deskfork/deskfork/pkg/guest"
)

// HandlerFunc serves one operation.
type HandlerFunc func(ctx context.Context, c *Call) (any, error)

// Router serves operations by name; it must not change while it serves.
type Router map[string]HandlerFunc

// Serve implements Handler.
func (r Router) Serve(ctx context.Context, c *Call) (any, error) {
	h := r[c.Op]
	if h == nil {
		return nil, &guest.Error{Code: guest.CodeUnsupported, Message: fmt.Sprintf("operation %q is not served by this guest", c.Op)}
	}
	return h(ctx, c)
}

// Add puts other's operations into r.
func (r Router) Add(other Router) { maps.Copy(r, other) }

// Typed makes a HandlerFunc of a function that takes decoded parameters.
func Typed[P, R any](fn func(context.Context, *Call, P) (R, error)) HandlerFunc {
	return func(ctx context.Context, c *Call) (any, error) {
		var p P
		if err := c.Decode(&p); err != nil {
			return nil, err
		}
		return fn(ctx, c, p)
	}
}

// Streaming is Typed for operations that open n streams.
func Streaming[P, R any](n int, fn func(context.Context, *Call, P) (R, error)) HandlerFunc {
	typed := Typed(fn)
	return func(ctx context.Context, c *Call) (any, error) {
		if len(c.Streams) != n {
			return nil, &guest.Error{Code: guest.CodeInvalid, Message: fmt.Sprintf("%s needs %d streams, got %d", c.Op, n, len(c.Streams))}
		}
		return typed(ctx, c)
	}
}

var _ Handler = Router(nil)
