package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/link"
	"github.com/deskfork/deskfork/pkg/api/client/sse"
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
	return func(yield func(api.Event, error) bool) {
		s := eventStream{c: c, opts: opts, last: opts.After}
		again := link.NewRedial(c.pause, c.patience)
		for {
			before := s.last
			more, err := s.follow(ctx, yield)
			if !more {
				return
			}
			if s.last != before {
				again = link.NewRedial(c.pause, c.patience)
			}
			if !transient(err) || again.Wait(ctx) != nil {
				yield(api.Event{}, err)
				return
			}
		}
	}
}

type eventStream struct {
	c    *Client
	opts EventOptions
	last uint64
}

// follow reads one connection's events. more is false when the caller has left.
func (s *eventStream) follow(ctx context.Context, yield func(api.Event, error) bool) (more bool, _ error) {
	q := url.Values{}
	if s.opts.Desktop != "" {
		q.Set("desktop", s.opts.Desktop)
	}
	k := call{path: "/v1/events", query: q, header: http.Header{"Accept": {"text/event-stream"}}}
	if s.last > 0 {
		q.Set("after", strconv.FormatUint(s.last, 10))
		k.header.Set("Last-Event-ID", strconv.FormatUint(s.last, 10))
	}
	resp, err := s.c.open(ctx, k)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	for m, err := range sse.Messages(resp.Body) {
		if err != nil {
			return true, s.c.fault(ctx, err)
		}
		if m.Kind == "error" {
			return true, problemIn(m)
		}
		var e api.Event
		if err := m.Decode(&e); err != nil {
			return true, err
		}
		if e.Seq != 0 && e.Seq <= s.last {
			continue // said twice around a reconnect
		}
		s.last = max(s.last, e.Seq)
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

// transient says that an error is of the link and may pass.
func transient(err error) bool {
	p, ok := asError(err)
	return ok && (p.Code == api.CodeRefused || p.Code == api.CodeGuestUnavail)
}
