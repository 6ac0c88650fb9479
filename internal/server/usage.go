package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/spec"
	"github.com/deskfork/deskfork/internal/server/stream"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing"
)

type usageIn struct {
	Project string `query:"project" maxLength:"63" doc:"Default: all projects"`
	Since   int64  `query:"since" minimum:"0" doc:"Events with a greater id"`
	Limit   int    `query:"limit" minimum:"1" maximum:"5000" default:"500"`
}

type ackIn struct {
	Body api.AckUsage
}

type costIn struct {
	Start   string `query:"start" doc:"First day, YYYY-MM-DD, UTC; default: the first of this month"`
	End     string `query:"end" doc:"Last day, included; default: today"`
	Days    int    `query:"days" minimum:"0" doc:"When given, how many days that must be"`
	Project string `query:"project" maxLength:"63" doc:"Default: the caller's; with scope billing: all"`
	Session string `query:"session" maxLength:"200" doc:"Only this session"`
}

func (s *Server) registerUsage() {
	route.Call(s.routes, huma.Operation{
		OperationID: "list-usage-events", Method: http.MethodGet, Path: "/v1/usage_events", Tags: []string{"usage"},
		Summary:     "Pull use that was not acked, oldest first",
		Description: "Ask again since the last id until a page is empty. Each incarnation, kind and start comes once.",
	}, route.Billing, func(ctx context.Context, in *usageIn) (*route.Reply[api.UsageEvents], error) {
		v, err := s.host.Usage.Events(ctx, billing.Query{Project: in.Project, Since: in.Since, Limit: in.Limit})
		return &route.Reply[api.UsageEvents]{Body: v}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "ack-usage-events", Method: http.MethodPost, Path: "/v1/usage_events/ack", Tags: []string{"usage"},
		Summary: "Mark use as billed; again does nothing",
	}, route.Billing, func(ctx context.Context, in *ackIn) (*route.Reply[api.AckedUsage], error) {
		n, err := s.host.Usage.Ack(ctx, "", in.Body.IDs)
		return &route.Reply[api.AckedUsage]{Body: api.AckedUsage{Acked: n}}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "cost-report", Method: http.MethodGet, Path: "/v1/cost/report", Tags: []string{"usage"},
		Summary:     "Say what was used and what it costs, as far as that is known",
		Description: "What is missing is null, and attribution.warnings says why.",
	}, route.Cost.ForProject(ticket.View), func(ctx context.Context, in *costIn) (*route.Reply[api.CostReport], error) {
		a, err := asked(ctx, usage.Asked(*in))
		if err != nil {
			return nil, err
		}
		v, err := s.host.Usage.Report(ctx, a, time.Now())
		return &route.Reply[api.CostReport]{Body: v}, err
	})
	s.routes.Stream(huma.Operation{
		OperationID: "export-focus", Method: http.MethodGet, Path: "/v1/cost/focus", Tags: []string{"usage"},
		Summary: "Export use and cost as FOCUS 1.3, summed up by day",
		Parameters: []*huma.Param{
			spec.Query("format", "string", "csv (default) or jsonl"), spec.Query("start", "string", "As for the report"),
			spec.Query("end", "string", "As for the report"), spec.Query("project", "string", "As for the report"),
			spec.Query("session", "string", "As for the report"),
		},
		Responses: spec.Answers(http.StatusOK, "The data set", "text/csv"),
	}, route.Cost.Long(), s.exportFocus)
}

func (s *Server) exportFocus(w http.ResponseWriter, r *http.Request) error {
	q := param.Of(r)
	format := q.One("format", "csv", "jsonl")
	a := usage.Asked{Start: q.Text("start"), End: q.Text("end"), Project: q.Text("project"), Session: q.Text("session")}
	if err := q.Err(); err != nil {
		return err
	}
	a, err := asked(r.Context(), a)
	if err != nil {
		return err
	}
	write, err := s.host.Usage.Export(r.Context(), a, time.Now(), format)
	if err != nil {
		return err
	}
	out := stream.NewWriter(w, false, func(h http.Header) int {
		h.Set("Content-Type", map[string]string{"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}[format])
		h.Set("Cache-Control", "no-store")
		return http.StatusOK
	})
	if err := out.Begin(); err != nil {
		return err
	}
	return write(out)
}

// asked keeps a caller to what it may see: who bills sees everybody, others
// their own project.
func asked(ctx context.Context, a usage.Asked) (usage.Asked, error) {
	p := gate.Of(ctx).Principal
	if p.Can(token.ScopeBilling) {
		return a, nil
	}
	if a.Project != "" && a.Project != p.Project {
		e := api.Errorf(api.CodePermission, "use of project %s is not this token's to see: it belongs to project %s", a.Project, p.Project)
		e.Hint = "a token with the scope billing sees all projects"
		return a, e
	}
	a.Project = p.Project
	return a, nil
}
