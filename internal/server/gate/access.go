package gate

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/deskfork/deskfork/internal/host/metric"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
)

// Keys of the access log.
const (
	KeyRequest = "request"
	KeyMethod  = "method"
	KeyRoute   = "route"
	KeyPath    = "path"
	KeyStatus  = "status"
	KeyBytes   = "bytes"
	KeyTook    = "took"
	KeyClient  = "client"
	KeyToken   = "token_id"
	KeyTicket  = "ticket_id"
	KeyCode    = "code"
	KeyStage   = "stage"
	KeyError   = "err"
	KeyPanic   = "panic"
	KeyStack   = "stack"
)

// State is what is known of one request on its way.
type State struct {
	ID        string
	Client    netip.Addr
	TLS       bool // as the client sees it, through trusted proxies
	Host      string
	Route     string // pattern; empty when none matched
	Nested    bool   // errors carry the member that drivers read
	Principal token.Principal
	Grant     *ticket.Grant // of who shows a ticket in place of a token
	problem   atomic.Pointer[api.Error]
}

type stateKey struct{}

// Of returns the state of a request that came through Access.
func Of(ctx context.Context) *State {
	if s, ok := ctx.Value(stateKey{}).(*State); ok {
		return s
	}
	return &State{}
}

// Note keeps an error for the access log when the answer itself cannot tell it:
// a stream that broke, or a WebSocket.
func Note(r *http.Request, err *api.Error) { NoteContext(r.Context(), err) }

// NoteContext is Note for callers that have the context alone.
func NoteContext(ctx context.Context, err *api.Error) { Of(ctx).problem.Store(err) }

// Access gives each request an id and a state, writes the access log and counts.
type Access struct {
	Next    http.Handler
	Logger  *slog.Logger
	Metrics *metric.Set
	Proxies Proxies
	// Path answers how the path is written to the log, without secrets.
	Path func(*http.Request) string
	// Patience is how long a client may take to read one part of an answer.
	// Zero: for ever.
	Patience time.Duration
}

func (a *Access) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	s := &State{ID: requestID(r)}
	a.Proxies.apply(r, s)
	rec := &Recorder{ResponseWriter: w, control: http.NewResponseController(w), patience: a.Patience}
	rec.Header().Set(api.HeaderRequestID, s.ID)
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	a.Metrics.InFlight(1)
	defer func() {
		broke := recover()
		a.Metrics.InFlight(-1)
		a.log(r, s, rec, time.Since(start), broke)
		if broke != nil {
			// net/http ends the connection, which tells the client.
			panic(http.ErrAbortHandler) //nolint:forbidigo // the only way to cut an answer short
		}
	}()
	a.Next.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), stateKey{}, s)))
}

func (a *Access) log(r *http.Request, s *State, rec *Recorder, took time.Duration, broke any) {
	route := s.Route
	if route == "" {
		route = "none"
	}
	e := s.problem.Load()
	status := rec.Status()
	lvl := level(e, status)
	attrs := []slog.Attr{
		slog.String(KeyRequest, s.ID), slog.String(KeyMethod, r.Method), slog.String(KeyRoute, route),
		slog.String(KeyPath, a.Path(r)), slog.Int(KeyStatus, status), slog.Int64(KeyBytes, rec.bytes.Load()),
		slog.Duration(KeyTook, took), slog.String(KeyClient, s.Client.String()),
	}
	if s.Principal.TokenID != "" {
		attrs = append(attrs, slog.String(KeyToken, s.Principal.TokenID))
	}
	if s.Grant != nil {
		attrs = append(attrs, slog.String(KeyTicket, s.Grant.ID))
	}
	if e != nil {
		attrs = append(attrs, slog.String(KeyCode, string(e.Code)), slog.String(KeyStage, e.Stage), slog.String(KeyError, e.Detail))
	}
	if err, ok := broke.(error); broke != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
		lvl = slog.LevelError
		attrs = append(attrs, slog.Any(KeyPanic, broke), slog.String(KeyStack, string(debug.Stack())))
	}
	a.Metrics.Request(route, status, took)
	a.Logger.LogAttrs(r.Context(), lvl, "request", attrs...)
}

// requestID takes over a sane id of the caller, or makes one.
func requestID(r *http.Request) string {
	id := r.Header.Get(api.HeaderRequestID)
	bad := func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_'
	}
	if len(id) >= 1 && len(id) <= 64 && !strings.ContainsFunc(id, bad) {
		return id
	}
	return strings.ToLower(rand.Text()[:16])
}

// Recorder notes status and size of an answer, and gives up on a client that
// stops reading it.
type Recorder struct {
	http.ResponseWriter

	control  *http.ResponseController
	patience time.Duration
	status   atomic.Int64
	bytes    atomic.Int64
}

// Status is what was answered; 200 when nothing was said, 101 after a hijack.
func (r *Recorder) Status() int {
	if s := r.status.Load(); s != 0 {
		return int(s)
	}
	return http.StatusOK
}

// Begun says whether an answer is on its way.
func (r *Recorder) Begun() bool { return r.status.Load() != 0 }

// WriteHeader implements http.ResponseWriter.
func (r *Recorder) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		r.status.CompareAndSwap(0, int64(status))
	}
	r.ResponseWriter.WriteHeader(status)
}

// answerPart is how much goes out under one deadline, in bytes: a client that
// reads slowly is not one that has stopped.
const answerPart = 256 << 10

func (r *Recorder) Write(p []byte) (int, error) {
	r.status.CompareAndSwap(0, http.StatusOK)
	sent := 0
	for {
		part := p[sent:min(len(p), sent+answerPart)]
		if err := r.extend(); err != nil {
			return sent, err
		}
		n, err := r.ResponseWriter.Write(part)
		r.bytes.Add(int64(n))
		sent += n
		if err != nil || sent == len(p) {
			return sent, err
		}
	}
}

// extend gives the client time to read the next part. A writer that knows no
// deadlines is fine. net/http takes the last one back after the answer.
func (r *Recorder) extend() error {
	if r.patience <= 0 {
		return nil
	}
	err := r.control.SetWriteDeadline(time.Now().Add(r.patience))
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}

// Flush implements http.Flusher, which the reverse proxy asks for.
func (r *Recorder) Flush() { _ = r.FlushError() } // the next write tells

// FlushError is what http.ResponseController asks for.
func (r *Recorder) FlushError() error {
	r.status.CompareAndSwap(0, http.StatusOK)
	if err := r.extend(); err != nil {
		return err
	}
	if err := r.control.Flush(); !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil // a writer that cannot has nothing to flush
}

// Hijack implements http.Hijacker.
func (r *Recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := r.control.Hijack()
	if err == nil {
		r.status.CompareAndSwap(0, http.StatusSwitchingProtocols)
	}
	return c, rw, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *Recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
