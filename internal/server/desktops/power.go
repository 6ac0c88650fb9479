package desktops

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

type restoreIn struct {
	route.InDesktop

	Body api.Restore
}

type policyIn struct {
	route.InDesktop

	Body api.Policy
}

// turn is a verb that takes nothing but a desktop.
type turn struct {
	verb, summary, doc string
	do                 func(ctx context.Context, project, ref string) (api.Desktop, error)
}

func (d *desk) registerPower() {
	for _, t := range []turn{
		{"pause", "Stop a desktop's vCPUs", "Memory stays where it is. Repeatable.", d.host.Power.Pause},
		{"suspend", "Move a desktop's memory to disk and end its process", "It stays so over restarts of the host. Repeatable.", d.host.Power.Suspend},
		{
			"resume", "Let a paused or suspended desktop go on where it stood",
			"Answers when it is usable; from suspension it has a new incarnation. Repeatable.", d.host.Power.Resume,
		},
	} {
		route.Call(d.routes, huma.Operation{
			OperationID: t.verb + "-desktop", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/" + t.verb, Tags: []string{"desktops"},
			Summary: t.summary, Description: t.doc,
		}, route.Write.Long().ForProject(ticket.Control), func(ctx context.Context, in *route.InDesktop) (*route.Reply[api.Desktop], error) {
			v, err := t.do(ctx, route.Project(ctx), in.Desktop)
			return &route.Reply[api.Desktop]{Body: v}, err
		})
	}
	route.Call(d.routes, huma.Operation{
		OperationID: "restore-desktop", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/restore", Tags: []string{"desktops"},
		Summary:     "Put a desktop back to a snapshot, in place",
		Description: "Its id and name stay, its incarnation is new. What it was until then is gone, unless this fails.",
	}, route.Write.Long(), func(ctx context.Context, in *restoreIn) (*route.Reply[api.Desktop], error) {
		v, err := d.host.Power.Restore(ctx, route.Project(ctx), in.Desktop, in.Body)
		return &route.Reply[api.Desktop]{Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "set-policy", Method: http.MethodPut, Path: "/v1/desktops/{desktop}/policy", Tags: []string{"desktops"},
		Summary:     "Say when a desktop ends or rests by itself",
		Description: "Replaces the whole policy; what is absent is never, or the default.",
	}, route.Write, func(ctx context.Context, in *policyIn) (*route.Reply[api.Desktop], error) {
		v, err := d.host.SetPolicy(ctx, route.Project(ctx), in.Desktop, in.Body)
		return &route.Reply[api.Desktop]{Body: v}, err
	})
}

func (d *desk) registerTree() {
	route.Call(d.routes, huma.Operation{
		OperationID: "tree", Method: http.MethodGet, Path: "/v1/tree", Tags: []string{"desktops"},
		Summary:     "The lineage of the project's desktops",
		Description: "Who came from whom, what each shares and what it costs. Parents come before their children.",
	}, route.Read.ForProject(ticket.View), func(ctx context.Context, _ *struct{}) (*route.Reply[api.Tree], error) {
		t, err := d.host.Tree(ctx, route.Project(ctx))
		return &route.Reply[api.Tree]{Body: t}, err
	})
}
