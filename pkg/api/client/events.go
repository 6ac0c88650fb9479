package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/fault"
	"github.com/deskfork/deskfork/pkg/api/client/link"
	"github.com/deskfork/deskfork/pkg/api/client/sse"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// EventOptions chooses events. Zero: all of the project, from now on.
type EventOptions struct {
	Desktop string // id or name
	After   uint64 // sequence number; events that came after it are sent first
}

// Events yields events until ctx ends or the loop is left. A broken link is
// dialled again and goes on after the last event; only when that does not work
// for the client's patience, or the server says no, an error is yielded, last.
func (c *Client) Events(ctx context.Context, opts EventOptions) iter.Seq2[api.Event, error] {
	q := url.Values{}
	set(q, "desktop", opts.Desktop)
	return follow(ctx, c, &told[api.Event]{path: "/v1/events", query: q, last: opts.After, seq: func(e api.Event) uint64 { return e.Seq }})
}

// told is a stream of events of a kind.
type told[E any] struct {
	path  string
	query url.Values
	seq   func(E) uint64
	last  uint64 // number of the last event that was yielded
}

// follow yields events over one connection after the other.
func follow[E any](ctx context.Context, c *Client, s *told[E]) iter.Seq2[E, error] {
	return func(yield func(E, error) bool) {
		again := link.NewRedial(c.server.Pause, c.patience)
		for {
			before := s.last
			more, err := s.read(ctx, c, yield)
			if !more {
				return
			}
			if s.last != before {
				again = link.NewRedial(c.server.Pause, c.patience)
			}
			if !transient(err) || again.Wait(ctx) != nil {
				var none E
				yield(none, err)
				return
			}
		}
	}
}

// read reads one connection's events. more is false when the caller has left.
func (s *told[E]) read(ctx context.Context, c *Client, yield func(E, error) bool) (more bool, _ error) {
	k := wire.Call{Path: s.path, Query: s.query, Header: http.Header{"Accept": {"text/event-stream"}}}
	if s.last > 0 {
		s.query.Set("after", strconv.FormatUint(s.last, 10))
		k.Header.Set("Last-Event-ID", strconv.FormatUint(s.last, 10))
	}
	resp, err := c.server.Open(ctx, k)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	for m, err := range sse.Messages(resp.Body) {
		if err != nil {
			return true, c.server.Fault(ctx, err)
		}
		if m.Kind == "error" {
			return true, problemIn(m)
		}
		var e E
		if err := m.Decode(&e); err != nil {
			return true, err
		}
		seq := s.seq(e)
		if seq != 0 && seq <= s.last {
			continue // said twice around a reconnect
		}
		s.last = max(s.last, seq)
		if !yield(e, nil) {
			return false, nil
		}
	}
	return false, nil
}

// problemIn is the error with which a server ends a stream that has begun.
func problemIn(m sse.Message) error {
	p := &api.Error{}
	if err := m.Decode(p); err != nil {
		return err
	}
	return p
}

// transient says that an error is of the link, or of a server without room for
// another, and may pass.
func transient(err error) bool {
	p, ok := fault.As(err)
	return ok && (p.Code == api.CodeRefused || p.Code == api.CodeGuestUnavail || p.Code == api.CodeRateLimited)
}
