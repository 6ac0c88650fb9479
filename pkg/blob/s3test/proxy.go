package s3test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Trouble is what befalls one request; the zero value is nothing.
type Trouble struct {
	Delay time.Duration   // before it is passed on
	Until <-chan struct{} // closed when it may be passed on; nil: it may
	// Status answers in the server's place, with an empty body.
	Status int
	// Refuse closes the connection before anything is passed on.
	Refuse bool
	// Lose passes the request on, waits for the answer and closes the connection.
	Lose bool
	// CutRequest and CutAnswer close the connection after so many bytes of body.
	CutRequest, CutAnswer int64
	// Dribble sends the answer's body in pieces of so many bytes.
	Dribble int
	// Stall stops for ever behind CutAnswer bytes instead of closing.
	Stall bool
}

// Proxy passes requests on to a server, and some of them not quite.
type Proxy struct {
	Addr string

	to     string
	plan   func(*http.Request) Trouble
	ctx    context.Context //nolint:containedctx // lives as long as the test
	active sync.WaitGroup
	mu     sync.Mutex
	conns  map[net.Conn]bool
}

// NewProxy runs a proxy in front of a server until the end of the test. plan is
// asked for every request, also at the same time.
func NewProxy(tb testing.TB, to string, plan func(*http.Request) Trouble) *Proxy {
	tb.Helper()
	p, stop, err := RunProxy(context.Background(), to, plan)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(stop)
	return p
}

// RunProxy is NewProxy for what is no test; stop ends the proxy.
func RunProxy(ctx context.Context, to string, plan func(*http.Request) Trouble) (_ *Proxy, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Proxy{Addr: l.Addr().String(), to: to, plan: plan, ctx: ctx, conns: map[net.Conn]bool{}}
	p.active.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.active.Go(func() { p.serve(c) })
		}
	})
	return p, func() {
		cancel()
		_ = l.Close()
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.active.Wait()
	}, nil
}

func (p *Proxy) track(c net.Conn) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
	if p.ctx.Err() != nil {
		_ = c.Close()
	}
	return func() {
		_ = c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}
}

// serve handles one connection, request by request, until one is in trouble.
func (p *Proxy) serve(client net.Conn) {
	defer p.track(client)()
	server, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.to)
	if err != nil {
		return
	}
	defer p.track(server)()
	in, out := bufio.NewReader(client), bufio.NewReader(server)
	for {
		req, err := http.ReadRequest(in)
		if err != nil || !p.pass(client, server, out, req) {
			return
		}
	}
}

func (p *Proxy) pass(client io.Writer, server io.Writer, out *bufio.Reader, req *http.Request) bool {
	t := p.plan(req)
	select {
	case <-time.After(t.Delay):
	case <-p.ctx.Done():
		return false
	}
	if t.Until != nil {
		select {
		case <-t.Until:
		case <-p.ctx.Done():
			return false
		}
	}
	if t.Refuse {
		return false
	}
	if t.Status != 0 {
		_, _ = io.Copy(io.Discard, req.Body)
		resp := http.Response{StatusCode: t.Status, ProtoMajor: 1, ProtoMinor: 1, ContentLength: 0, Request: req}
		return resp.Write(client) == nil
	}
	if t.CutRequest > 0 {
		req.Body = io.NopCloser(io.MultiReader(io.LimitReader(req.Body, t.CutRequest), broken{}))
	}
	req.Header.Del("Expect") // what is asked for is sent at once
	if req.Write(server) != nil {
		return false
	}
	resp, err := http.ReadResponse(out, req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if t.Lose {
		return false
	}
	if t.CutAnswer > 0 {
		resp.Body = io.NopCloser(io.MultiReader(io.LimitReader(resp.Body, t.CutAnswer), p.end(t.Stall)))
	}
	if t.Dribble > 0 {
		resp.Body = io.NopCloser(dribble{resp.Body, t.Dribble})
	}
	return resp.Write(client) == nil
}

func (p *Proxy) end(stall bool) io.Reader {
	if stall {
		return stalled{p.ctx.Done()}
	}
	return broken{}
}

type broken struct{}

// Read fails.
func (broken) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

type stalled struct{ done <-chan struct{} }

// Read waits for the end of the test.
func (s stalled) Read([]byte) (int, error) {
	<-s.done
	return 0, io.ErrClosedPipe
}

type dribble struct {
	io.Reader

	n int
}

// Read gives few bytes.
func (d dribble) Read(p []byte) (int, error) { return d.Reader.Read(p[:min(len(p), d.n)]) }
