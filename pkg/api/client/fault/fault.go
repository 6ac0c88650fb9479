// Package fault gives errors of calls their codes: those of the way to a server, and
// those that its answers tell.
package fault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/deskfork/deskfork/pkg/api"
)

// way is an error of the way to the server: an *api.Error with its cause.
type way struct {
	problem *api.Error
	cause   error
}

func (f *way) Error() string   { return f.problem.Error() }
func (f *way) Unwrap() []error { return []error{f.problem, f.cause} }

// Of gives an error of the transport to a host a code.
func Of(ctx context.Context, host string, err error) error {
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
		p = api.Errorf(api.CodeDeadline, "no answer from %s in time", host)
	case errors.Is(err, syscall.ECONNREFUSED):
		p = api.Errorf(api.CodeRefused, "nothing listens at %s", host)
		p.Hint = "start it with: vmhost serve"
	default:
		p = api.Errorf(api.CodeRefused, "talk to %s: %v", host, err)
	}
	return &way{problem: p, cause: fmt.Errorf("%w: %w", cause, err)}
}

// Broken says that the way to the server broke, so that a repeatable call may
// be repeated.
func Broken(err error) bool {
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

// Problem makes an *api.Error of an answer; ours says that the server wrote
// it, and not something in between.
func Problem(resp *http.Response) (_ *api.Error, ours bool) {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // what came is enough for a message
	var p api.Error
	if json.Unmarshal(raw, &p) == nil && p.Code != "" {
		if p.Status == 0 {
			p.Status = resp.StatusCode
		}
		return &p, true
	}
	detail := strings.TrimSpace(string(raw[:min(len(raw), 300)]))
	if p.Detail != "" {
		detail = p.Detail
	}
	return &api.Error{
		Title: http.StatusText(resp.StatusCode), Status: resp.StatusCode, Code: codeOf(resp.StatusCode),
		Detail: strings.TrimSuffix(fmt.Sprintf("%s: %s", resp.Status, detail), ": "), Errors: p.Errors,
	}, false
}

// codeOf guesses a code for a status that came without one.
func codeOf(status int) api.Code {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed:
		return api.CodeInvalid
	case http.StatusUnauthorized:
		return api.CodeUnauthorized
	case http.StatusForbidden, http.StatusMisdirectedRequest:
		return api.CodeForbidden
	case http.StatusNotFound:
		return api.CodeNotFound
	case http.StatusConflict:
		return api.CodeConflict
	case http.StatusRequestEntityTooLarge:
		return api.CodeTooLarge
	case http.StatusTooManyRequests:
		return api.CodeRateLimited
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return api.CodeRefused
	case http.StatusGatewayTimeout:
		return api.CodeDeadline
	default:
		return api.CodeInternal
	}
}

// As finds the *api.Error within an error.
func As(err error) (*api.Error, bool) {
	var p *api.Error
	ok := errors.As(err, &p)
	return p, ok
}
