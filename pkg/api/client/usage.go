package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
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
	return fetch[api.UsageEvents](ctx, u.c, call{path: "/v1/usage_events", query: v})
}

// Ack marks events as billed and answers how many were not before. It needs the
// scope billing, and may be repeated.
func (u *Usage) Ack(ctx context.Context, ids []int64) (int, error) {
	out, err := fetch[api.AckedUsage](ctx, u.c, call{
		method: http.MethodPost, path: "/v1/usage_events/ack", json: api.AckUsage{IDs: ids}, same: true,
	})
	return out.Acked, err
}

// Report says what was used and what it costs, as far as that is known.
func (u *Usage) Report(ctx context.Context, q api.CostQuery) (api.CostReport, error) {
	return fetch[api.CostReport](ctx, u.c, call{path: "/v1/cost/report", query: costQuery(q)})
}

// Focus writes use and cost to w as FOCUS 1.3; format is csv or jsonl.
func (u *Usage) Focus(ctx context.Context, q api.CostQuery, format string, w io.Writer) error {
	v := costQuery(q)
	v.Set("format", format)
	resp, err := u.c.open(ctx, call{path: "/v1/cost/focus", query: v})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return u.c.fault(ctx, fmt.Errorf("read FOCUS export: %w", err))
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
