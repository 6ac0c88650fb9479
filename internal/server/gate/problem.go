package gate

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
)

// retryAfter is what a client is told to wait before it tries again, in seconds.
const retryAfter = 1

// Problem answers a request with an error as problem+json. The error is noted
// for the access log, which alone writes it down.
func Problem(w http.ResponseWriter, r *http.Request, err error) {
	e := fault.From(err)
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
