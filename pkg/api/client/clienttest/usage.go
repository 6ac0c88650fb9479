package clienttest

import (
	"io"
	"net/http"

	"github.com/deskfork/deskfork/pkg/api"
)

// routeUsage serves three days of use; the price of its second kind is missing.
func (s *Server) routeUsage(m *http.ServeMux) {
	m.HandleFunc("GET /v1/usage_events", s.on(func(*http.Request) (reply, *api.Error) {
		return reply{body: api.UsageEvents{Events: []api.UsageEvent{{ID: 7, Project: "default", Kind: "egress_bytes", Value: 5}}, Count: 1}}, nil
	}))
	m.HandleFunc("POST /v1/usage_events/ack", s.on(func(r *http.Request) (reply, *api.Error) {
		in, problem := read[api.AckUsage](r)
		return reply{body: api.AckedUsage{Acked: len(in.IDs)}}, problem
	}))
	m.HandleFunc("GET /v1/cost/report", s.on(func(*http.Request) (reply, *api.Error) {
		day := func(day string, active, egress int64) api.UsageDay {
			return api.UsageDay{Day: day, Values: map[string]int64{"sandbox_active_seconds": active, "egress_bytes": egress}}
		}
		return reply{body: api.CostReport{
			Period: api.CostPeriod{Start: "2026-11-01", End: "2026-11-05", Days: 5}, Scope: api.CostScope{Type: "project", ID: "default"},
			Attribution: api.CostAttribution{
				Provider: "deskfork", Source: "provider_metered", Granularity: "resource", Completeness: "partial",
				Warnings: []string{"provider_cost_unavailable", "period_open"},
			},
			Lines: []api.CostLine{
				{Kind: "sandbox_active_seconds", Quantity: "1.500000", Unit: "Hours", Value: 5400, Cost: &api.Money{Amount: "0.075000", Currency: "USD"}},
				{Kind: "egress_bytes", Quantity: "2.000000", Unit: "GiB", Value: 2 << 30},
			},
			Daily: []api.UsageDay{
				day("2026-11-01", 0, 0), day("2026-11-02", 3600, 1<<30), day("2026-11-03", 0, 0), day("2026-11-04", 1800, 1<<30), day("2026-11-05", 0, 0),
			},
		}}, nil
	}))
	m.HandleFunc("GET /v1/cost/focus", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "FOCUS as "+r.URL.Query().Get("format")+"\n") // a client that has gone away
	})
}
