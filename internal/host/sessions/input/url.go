package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/input/rule"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// Bounds of what a server may make a run wait for.
const (
	connect   = 30 * time.Second
	stalled   = time.Minute
	redirects = 5
)

// WebConfig is what files are fetched with. Zero members mean the default in brackets.
type WebConfig struct {
	// Public says which addresses may be spoken to [those of the internet].
	Public func(netip.Addr) bool
	// Stall is how long a server may send nothing [1 min].
	Stall time.Duration
	// Transport is changed: it dials in a way of its own.
	Transport *http.Transport
}

// Web fetches files by https, from public addresses alone: a run must not make the
// host speak to what only the host can reach.
type Web struct {
	client *http.Client
	stall  time.Duration
}

// NewWeb makes one.
func NewWeb(c WebConfig) *Web {
	public, transport := c.Public, c.Transport
	if public == nil {
		public = Public
	}
	if transport == nil {
		transport = &http.Transport{}
	}
	d := &net.Dialer{Timeout: connect, Control: func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil || !public(a.Addr()) {
			return errPrivate
		}
		return nil
	}}
	transport.DialContext, transport.ResponseHeaderTimeout, transport.TLSHandshakeTimeout = d.DialContext, connect, connect
	transport.ForceAttemptHTTP2, transport.DisableKeepAlives = true, true
	return &Web{stall: cmp.Or(c.Stall, stalled), client: &http.Client{Transport: transport, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > redirects {
			return errors.New("it is redirected too often")
		}
		return rule.URL(r.URL.String())
	}}}
}

var errPrivate = errors.New("its address is none of the public internet: upload the file instead")

// private are addresses that netip does not tell from public ones: special ones of
// IPv4, and those of IPv6 that stand for one of IPv4.
var private = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32"),
}

// Public says whether an address is one of the public internet.
func Public(a netip.Addr) bool {
	a = a.Unmap()
	within := func(p netip.Prefix) bool { return p.Contains(a) }
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(private, within)
}

// OpenFile implements session.InputAccess for files that have a URL.
func (w *Web) OpenFile(ctx context.Context, r session.Resource) (io.ReadCloser, error) {
	if err := rule.URL(r.URL); err != nil {
		return nil, api.Errorf(api.CodeInvalid, "%v", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL, nil)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("fetch: %w", err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := w.client.Do(req)
	if err != nil {
		cancel(nil)
		return nil, unreachable(err)
	}
	if resp.StatusCode != http.StatusOK {
		cancel(nil)
		_ = resp.Body.Close()
		e := api.Errorf(api.CodePrecondition, "its server answers %s", resp.Status)
		e.Retryable = resp.StatusCode >= http.StatusInternalServerError || resp.StatusCode == http.StatusTooManyRequests
		return nil, e
	}
	return &body{
		ReadCloser: resp.Body, ctx: ctx, cancel: cancel, stall: w.stall,
		timer: time.AfterFunc(w.stall, func() { cancel(errStalled) }),
	}, nil
}

var errStalled = errors.New("its server has stopped sending")

func unreachable(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the address, which may hold a signature
	}
	if errors.Is(err, errPrivate) {
		return api.Errorf(api.CodeForbidden, "%v", errPrivate)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	e := api.Errorf(api.CodePrecondition, "its server cannot be reached: %v", err)
	e.Retryable = true
	return e
}

// body is cut when nothing comes.
type body struct {
	io.ReadCloser

	ctx    context.Context // of the request, to tell why it ended
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.timer.Reset(b.stall)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case errors.Is(context.Cause(b.ctx), errStalled):
		return n, api.Errorf(api.CodeDeadline, "%v", errStalled)
	case b.ctx.Err() != nil:
		return n, b.ctx.Err()
	}
	return n, unreachable(err)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
