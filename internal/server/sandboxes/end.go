package sandboxes

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

type endIn struct {
	InSandbox

	Reason string `query:"reason" enum:"completed,failed,lease_lost" doc:"Default failed"`
}

type reapIn struct {
	Fenced

	Body api.ReapSandbox
}

func (d *door) registerEnd() {
	route.Call(d.routes, huma.Operation{
		OperationID: "end-sandbox", Method: http.MethodDelete, Path: "/v1/sandboxes/{sandbox}", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary:     "End a sandbox",
		Description: "Repeatable: what is gone already is no error. One that could not be ended is tried again, by repeated calls and by the host.",
	}, write.Long(), func(ctx context.Context, in *endIn) (*route.None, error) {
		reason := session.Reason(cmp.Or(in.Reason, string(session.ReasonFailed)))
		return nil, d.desk.End(ctx, in.by(ctx), in.Sandbox, reason)
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "reap-sandbox", Method: http.MethodPost, Path: "/v1/reap", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "End a sandbox from its stored lease",
		Description: "It names one incarnation: what was resumed since is left alone. Repeatable, over restarts of the host too. " +
			"A lease of another provider or scope is a conflict.",
	}, write.Long(), func(ctx context.Context, in *reapIn) (*route.None, error) {
		l := session.Lease{Provider: in.Body.Lease.Provider, RuntimeID: in.Body.Lease.RuntimeID, Metadata: in.Body.Lease.Metadata}
		reason := session.Reason(cmp.Or(in.Body.Reason, string(session.ReasonLeaseLost)))
		return nil, d.desk.Reap(ctx, in.by(ctx), scope(in.Body.Scope), l, reason)
	})
}
