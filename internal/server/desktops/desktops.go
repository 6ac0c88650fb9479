// Package desktops is the routes of a desktop's life: create, fork, stop, keep,
// and what came of whom.
package desktops

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

// defaultWait is how long a call waits that names no time.
const defaultWait = 5 * time.Minute

// desk is the routes of desktops.
type desk struct {
	routes *route.Table
	host   *host.Host
}

// Register registers the routes.
func Register(t *route.Table, h *host.Host) {
	d := &desk{routes: t, host: h}
	d.registerDesktops()
	d.registerFork()
	d.registerPower()
	d.registerSnapshots()
	d.registerExports()
	d.registerStored()
	d.registerWorkspaces()
	d.registerArchives()
	d.registerTree()
}

type createIn struct {
	Key     string `header:"Idempotency-Key" doc:"Makes the call repeatable within 24 hours"`
	Wait    string `query:"wait" enum:"machine,link,handshake,session,drawn,ready" doc:"Answer only when this stage is reached"`
	Timeout string `query:"timeout" doc:"Of the wait, e.g. 120s; default 5m"`
	Body    api.CreateDesktop
}

type createOut struct {
	Location string `header:"Location"`
	Body     api.Desktop
}

type waitIn struct {
	route.InDesktop

	Stage   string `query:"stage" default:"drawn" enum:"admission,machine,link,handshake,session,drawn,ready"`
	Timeout string `query:"timeout" doc:"E.g. 120s; default 5m"`
}

type listIn struct {
	Label []string `query:"label,explode" doc:"key or key=value; all must match"`
	State string   `query:"state" enum:"starting,ready,failed,stopped,deleting,paused,suspended"`
	Name  string   `query:"name"`
}

func (d *desk) registerDesktops() {
	route.Call(d.routes, huma.Operation{
		OperationID: "create-desktop", Method: http.MethodPost, Path: "/v1/desktops", Tags: []string{"desktops"},
		Summary: "Create a desktop of an image or a snapshot", DefaultStatus: http.StatusCreated,
		Description: "It is a clone of the image's boot snapshot where one fits this host, else it boots; origin and origin_reason tell. " +
			"Answers when the desktop is admitted and its machine begins to start, or when the stage named by wait is reached.",
	}, route.Write.Long().ForProject(ticket.Control), d.create)
	route.Call(d.routes, huma.Operation{
		OperationID: "list-desktops", Method: http.MethodGet, Path: "/v1/desktops", Tags: []string{"desktops"},
		Summary: "List the desktops of the token's project",
	}, route.Read.ForProject(ticket.View), func(ctx context.Context, in *listIn) (*route.Reply[api.DesktopList], error) {
		list, err := d.host.Desktops(ctx, route.Project(ctx), host.ListFilter{
			Labels: in.Label, State: api.DesktopState(in.State), Name: in.Name,
		})
		return &route.Reply[api.DesktopList]{Body: api.DesktopList{Desktops: list}}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "get-desktop", Method: http.MethodGet, Path: "/v1/desktops/{desktop}", Tags: []string{"desktops"},
		Summary: "Describe a desktop",
	}, route.Read.ForProject(ticket.View), func(ctx context.Context, in *route.InDesktop) (*route.Reply[api.Desktop], error) {
		v, err := d.host.Desktop(ctx, route.Project(ctx), in.Desktop)
		return &route.Reply[api.Desktop]{Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "wait-desktop", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/wait", Tags: []string{"desktops"},
		Summary: "Wait for a stage", Description: "The problem of a desktop that failed is the failure of its stage.",
	}, route.Read.Long(), func(ctx context.Context, in *waitIn) (*route.Reply[api.Desktop], error) {
		v, err := d.wait(ctx, in.Desktop, in.Stage, in.Timeout)
		return &route.Reply[api.Desktop]{Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "delete-desktop", Method: http.MethodDelete, Path: "/v1/desktops/{desktop}", Tags: []string{"desktops"},
		Summary: "Delete a desktop", Description: "Repeatable: what is gone already is no error.",
		DefaultStatus: http.StatusNoContent,
	}, route.Write.Long().ForProject(ticket.Admin), func(ctx context.Context, in *route.InDesktop) (*route.None, error) {
		return nil, d.host.Delete(ctx, route.Project(ctx), in.Desktop)
	})
}

func (d *desk) create(ctx context.Context, in *createIn) (*createOut, error) {
	if _, err := param.Wait(in.Timeout, defaultWait); err != nil {
		return nil, err
	}
	if err := oneSource(in.Body); err != nil {
		return nil, err
	}
	v, err := d.host.Create(ctx, route.Project(ctx), in.Body, in.Key)
	if err != nil {
		return nil, err
	}
	if in.Wait != "" {
		id := v.ID
		if v, err = d.wait(ctx, id, in.Wait, in.Timeout); err != nil {
			// The desktop is there: say which one failed to come up.
			e := *fault.From(err)
			e.Hint = cmp.Or(e.Hint, "the desktop is "+id)
			return nil, &e
		}
	}
	return &createOut{Location: "/v1/desktops/" + v.ID, Body: v}, nil
}

// oneSource refuses what names neither an image nor a snapshot, or both.
func oneSource(req api.CreateDesktop) error {
	if (req.Image == "") != (req.Snapshot == "") {
		return nil
	}
	e := api.Errorf(api.CodeInvalid, "validation failed")
	e.Errors = []api.FieldError{{Location: "body", Message: "want image or snapshot, one of them"}}
	return e
}

func (d *desk) wait(ctx context.Context, ref, stage, timeout string) (api.Desktop, error) {
	limit, err := param.Wait(timeout, defaultWait)
	if err != nil {
		return api.Desktop{}, err
	}
	if stage == "ready" {
		stage = string(api.StageDrawn)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d.host.Wait(ctx, route.Project(ctx), ref, api.Stage(stage))
}
