package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Usage tells what desktops use and what that costs.
type Usage struct{ c *Client }

// Events pulls use that was not acked, oldest first; it needs the scope billing.
// Whoever asks again since the last id gets everything once.
func (u *Usage) Events(ctx context.Context, q api.UsageQuery) (api.UsageEvents, error) {
	v := url.Values{}
	set(v, "project", q.Project)
	if q.Since > 0 {
		v.Set("since", strconv.FormatInt(q.Since, 10))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return wire.Fetch[api.UsageEvents](ctx, u.c.server, wire.Call{Path: "/v1/usage_events", Query: v})
}

// Ack marks events as billed and answers how many were not before. It needs the
// scope billing, and may be repeated.
func (u *Usage) Ack(ctx context.Context, ids []int64) (int, error) {
	out, err := wire.Fetch[api.AckedUsage](ctx, u.c.server, wire.Call{
		Method: http.MethodPost, Path: "/v1/usage_events/ack", JSON: api.AckUsage{IDs: ids}, Same: true,
	})
	return out.Acked, err
}

// Report says what was used and what it costs, as far as that is known.
func (u *Usage) Report(ctx context.Context, q api.CostQuery) (api.CostReport, error) {
	return wire.Fetch[api.CostReport](ctx, u.c.server, wire.Call{Path: "/v1/cost/report", Query: costQuery(q)})
}

// Focus writes use and cost to w as FOCUS 1.3; format is csv or jsonl.
func (u *Usage) Focus(ctx context.Context, q api.CostQuery, format string, w io.Writer) error {
	v := costQuery(q)
	v.Set("format", format)
	resp, err := u.c.server.Open(ctx, wire.Call{Path: "/v1/cost/focus", Query: v})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return u.c.server.Fault(ctx, fmt.Errorf("read FOCUS export: %w", err))
	}
	return nil
}

func costQuery(q api.CostQuery) url.Values {
	v := url.Values{}
	set(v, "start", q.Start)
	set(v, "end", q.End)
	set(v, "project", q.Project)
	set(v, "session", q.Session)
	return v
}

// set sets what is not empty.
func set(v url.Values, name, value string) {
	if value != "" {
		v.Set(name, value)
	}
}
