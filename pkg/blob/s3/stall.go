package s3

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// errStalled ends a request whose bytes have stopped, in either direction.
var errStalled = errors.New("stream has stalled")

// guard is a transport that ends such requests. Between the two directions the
// transport below has a time limit of its own.
type guard struct {
	http.RoundTripper

	stall time.Duration
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &watch{ctx: ctx, cancel: cancel, stall: g.stall}
	w.timer = time.AfterFunc(g.stall, func() { cancel(errStalled) })
	w.timer.Stop()
	req = req.WithContext(ctx)
	if req.Body != nil && req.Body != http.NoBody {
		w.timer.Reset(g.stall)
		req.Body = &sent{req.Body, w}
	}
	resp, err := g.RoundTripper.RoundTrip(req)
	w.timer.Stop()
	if err != nil {
		err = w.cause(err)
		cancel(nil)
		return nil, err
	}
	resp.Body = &received{resp.Body, w}
	return resp, nil
}

// watch is the timer of one request.
type watch struct {
	ctx    context.Context //nolint:containedctx // lives as long as a request
	cancel context.CancelCauseFunc
	stall  time.Duration
	timer  *time.Timer
}

func (w *watch) cause(err error) error {
	if cause := context.Cause(w.ctx); errors.Is(cause, errStalled) {
		return cause
	}
	return err
}

// sent is a body on its way out: who asks for more has sent what it had.
type sent struct {
	io.ReadCloser

	watch *watch
}

// Read implements io.Reader.
func (s *sent) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil {
		s.watch.timer.Stop()
	} else {
		s.watch.timer.Reset(s.watch.stall)
	}
	return n, err
}

// received is a body on its way in.
type received struct {
	io.ReadCloser

	watch *watch
}

// Read implements io.Reader.
func (r *received) Read(p []byte) (int, error) {
	r.watch.timer.Reset(r.watch.stall)
	n, err := r.ReadCloser.Read(p)
	r.watch.timer.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.watch.cause(err)
	}
	return n, err
}

// Close ends the request.
func (r *received) Close() error {
	r.watch.timer.Stop()
	err := r.ReadCloser.Close()
	r.watch.cancel(nil)
	return err
}

// reader says of a blob's errors what they are.
type reader struct {
	io.ReadCloser

	key string
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault("get", r.key, err)
	}
	return n, err
}
