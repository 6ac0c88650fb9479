package gate

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
)

// retryAfter is what a client is told to wait before it tries again, in seconds.
const retryAfter = 1

// Why is err, or, when err is but the end of ctx, the reason for that end: a
// token that was revoked, a call that took too long.
func Why(ctx context.Context, err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if e, ok := errors.AsType[*api.Error](context.Cause(ctx)); ok {
		return e
	}
	return err
}

// Dress adds to an error what the clients of its route look for.
func Dress(ctx context.Context, e *api.Error) *api.Error {
	if !Of(ctx).Nested || e.Nested != nil {
		return e
	}
	c := *e
	c.Nested = e.AsNested()
	return &c
}

// Problem answers a request with an error as problem+json. The error is noted
// for the access log, which alone writes it down.
func Problem(w http.ResponseWriter, r *http.Request, err error) {
	e := Dress(r.Context(), fault.From(err))
	Note(r, e)
	h := w.Header()
	// What a handler has prepared for its success does not hold.
	for _, name := range []string{"Content-Length", "Content-Encoding", "Content-Range", "ETag", "Last-Modified", "Accept-Ranges"} {
		h.Del(name)
	}
	h.Set("Content-Type", api.ErrorMIME)
	h.Set("Cache-Control", "no-store")
	if e.Code == api.CodeUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="deskfork"`)
	}
	if e.Code == api.CodeRateLimited || e.Code == api.CodeNoCapacity {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	w.WriteHeader(e.GetStatus())
	if r.Method == http.MethodHead {
		return
	}
	// A client that has gone reads nothing; the status is in the log.
	_ = json.NewEncoder(w).Encode(e)
}

// level is how loud an error is in the log: a fault of ours is an error, a
// client that went away is nothing.
func level(e *api.Error, status int) slog.Level {
	switch {
	case e != nil && e.Code == api.CodeCancelled:
		return slog.LevelDebug
	case e != nil && e.Code == api.CodeInternal, status == http.StatusInternalServerError:
		return slog.LevelError
	case status >= http.StatusInternalServerError:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
