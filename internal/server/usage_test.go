package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/billing/rate"
)

// today is a row of an hour of today, UTC.
func today(inc, project string, k billing.Kind, hour int, value int64) billing.Row {
	r := billingtest.Row(inc, k, 0, value)
	r.Start = time.Now().UTC().Truncate(24 * time.Hour).Add(time.Duration(hour) * time.Hour)
	r.End, r.Owner.Project = r.Start.Add(time.Hour), project
	return r
}

// newBilledDoor is a door with use of two projects.
func newBilledDoor(t *testing.T) *door {
	t.Helper()
	book, err := rate.Parse(strings.NewReader("deskfork-rates 1\ncard v1 from 2020-01-01\nsandbox_active_seconds 0.05 USD per Hour\n"))
	if err != nil {
		t.Fatal(err)
	}
	l := billingtest.NewMemory()
	_, err = l.Commit(t.Context(), billing.Batch{Rows: []billing.Row{
		today("i1", "default", billing.SandboxActiveSeconds, 0, 3600), today("i1", "default", billing.SandboxActiveSeconds, 1, 1800),
		today("i2", "other", billing.SandboxActiveSeconds, 0, 720), today("i2", "other", billing.EgressBytes, 0, 5),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return newDoorOver(t, hosttest.New(t, func(c *host.Config) { c.Billing = usage.Config{Ledger: l, Rates: book} }))
}

func (d *door) as(t *testing.T, secret string) *client.Client {
	t.Helper()
	c, err := client.New(d.HTTP.URL, client.WithToken(secret))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestUsageEvents(t *testing.T) {
	d := newBilledDoor(t)
	c := d.as(t, d.tokenOf(t, "default", "billing")).Usage()
	ctx := t.Context()
	var got []api.UsageEvent
	q := api.UsageQuery{Limit: 3}
	for {
		page, err := c.Events(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if page.Count != len(page.Events) {
			t.Errorf("count %d of %d", page.Count, len(page.Events))
		}
		if page.Count == 0 {
			break
		}
		got = append(got, page.Events...)
		q.Since = got[len(got)-1].ID
	}
	if len(got) != 4 || got[0].Value != 3600 || got[0].Kind != string(billing.SandboxActiveSeconds) || got[3].Project != "other" {
		t.Fatalf("got %+v", got)
	}
	for i, want := range []int{2, 0} {
		if n, err := c.Ack(ctx, []int64{got[0].ID, got[2].ID, 1 << 40}); n != want || err != nil {
			t.Errorf("ack %d: %d, %v", i, n, err)
		}
	}
	if page, err := c.Events(ctx, api.UsageQuery{}); err != nil || page.Count != 2 {
		t.Errorf("left are %+v, %v", page, err)
	}
	if page, err := c.Events(ctx, api.UsageQuery{Project: "other"}); err != nil || page.Count != 1 {
		t.Errorf("of the other project %+v, %v", page, err)
	}
	for _, path := range []string{"?limit=0", "?limit=5001", "?since=-1", "?limit=x"} {
		if resp := d.do(t, "GET", "/v1/usage_events"+path, ""); resp.StatusCode != http.StatusUnprocessableEntity && resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: status %d", path, resp.StatusCode)
		}
	}
}

// TestUsageScopes: the secret of who bills is one of its own, which opens nothing
// else.
func TestUsageScopes(t *testing.T) {
	d := newBilledDoor(t)
	biller, writer := d.tokenOf(t, "default", "billing"), d.tokenOf(t, "default", "read", "write")
	for _, tt := range []struct {
		method, path, token string
		status              int
	}{
		{"GET", "/v1/usage_events", biller, 200},
		{"GET", "/v1/usage_events", writer, 403},
		{"GET", "/v1/usage_events", "none", 401},
		{"POST", "/v1/usage_events/ack", writer, 403},
		{"POST", "/v1/usage_events/ack", biller, 200},
		{"GET", "/v1/cost/report", biller, 200},
		{"GET", "/v1/cost/report", writer, 200},
		{"GET", "/v1/cost/report", "none", 401},
		{"GET", "/v1/cost/report?project=other", biller, 200},
		{"GET", "/v1/cost/report?project=other", writer, 403},
		{"GET", "/v1/cost/focus?project=other", writer, 403},
		{"GET", "/v1/cost/focus", writer, 200},
		{"GET", "/v1/cost/focus?format=xml", writer, 422},
		{"GET", "/v1/cost/report?start=2026-13-01", writer, 422},
		{"GET", "/v1/cost/report?start=2026-11-01&end=2026-11-02&days=3", writer, 422},
		{"GET", "/v1/desktops", biller, 403},
		{"POST", "/v1/desktops", biller, 403},
		{"GET", "/v1/tokens", biller, 403},
	} {
		body := ""
		if tt.method == "POST" {
			body = `{"ids":[]}`
		}
		if resp := d.do(t, tt.method, tt.path, body, "Authorization", "Bearer "+tt.token); resp.StatusCode != tt.status {
			t.Errorf("%s %s: status %d, want %d", tt.method, tt.path, resp.StatusCode, tt.status)
		}
	}
}

func TestCostReport(t *testing.T) {
	d := newBilledDoor(t)
	ctx := t.Context()
	day := time.Now().UTC().Format(time.DateOnly)
	own, err := d.as(t, d.tokenOf(t, "default", "read")).Usage().Report(ctx, api.CostQuery{Start: day, End: day})
	if err != nil || own.Total == nil || *own.Total != (api.Money{Amount: "0.075000", Currency: "USD"}) || own.Scope.ID != "default" ||
		len(own.Daily) != 1 || own.Daily[0].Values["sandbox_active_seconds"] != 5400 {
		t.Errorf("got %+v, %v", own, err)
	}
	all, err := d.as(t, d.tokenOf(t, "default", "billing")).Usage().Report(ctx, api.CostQuery{})
	if err != nil || all.Total != nil || all.Scope.Type != "account" || all.Attribution.Completeness != "partial" ||
		len(all.Lines) != 2 || all.Lines[0].Quantity != "1.700000" || all.Lines[0].Cost == nil || all.Lines[1].Cost != nil {
		t.Errorf("got %+v, %v", all, err)
	}
	// null is null on the wire too: a client must not read a 0.
	resp := d.do(t, "GET", "/v1/cost/report", "")
	raw := map[string]json.RawMessage{}
	if err := json.NewDecoder(resp.Body).Decode(&raw); err != nil || string(raw["total_cost"]) != "null" {
		t.Errorf("total_cost is %s, %v", raw["total_cost"], err)
	}
}

func TestFocusExport(t *testing.T) {
	d := newBilledDoor(t)
	for format, want := range map[string]string{
		"csv": "BilledCost,BillingAccountId,", "jsonl": `{"BilledCost":0.075,`,
	} {
		resp := d.do(t, "GET", "/v1/cost/focus?format="+format+"&project=default", "")
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), want) || strings.Contains(string(body), "other") {
			t.Errorf("%s: %d %s, %v", format, resp.StatusCode, body, err)
		}
	}
}

// TestUsageIsSeenAtOnce: a report tells of what runs now, before its window is
// closed, and Prometheus is told too.
func TestUsageIsSeenAtOnce(t *testing.T) {
	d := newDoor(t)
	ctx := t.Context()
	if _, err := d.Client.Desktops().Create(ctx, api.CreateDesktop{Image: "test", Name: "one"}, client.Until(api.StageDrawn)); err != nil {
		t.Fatal(err)
	}
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		report, err := d.Client.Usage().Report(ctx, api.CostQuery{})
		if err != nil {
			t.Fatal(err)
		}
		if len(report.Lines) > 0 && report.Lines[0].Kind == "sandbox_active_seconds" && report.Lines[0].Value > 0 {
			break
		}
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("after a minute: %+v", report)
		}
	}
	body, err := io.ReadAll(d.do(t, "GET", "/metrics", "").Body)
	if err != nil || !strings.Contains(string(body), "deskfork_usage_open 1") || !strings.Contains(string(body), "deskfork_usage_rows_dropped_total 0") {
		t.Errorf("metrics lack use: %v", err)
	}
}
