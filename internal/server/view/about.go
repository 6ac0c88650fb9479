package view

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

// registerAbout is what a page needs to know of the desktop that it shows: the part
// of its description that is no business of its owner alone.
func (v *views) registerAbout() {
	route.Call(v.routes, huma.Operation{
		OperationID: "about", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/about", Tags: []string{"control"},
		Summary: "Describe a desktop to who watches it",
	}, route.Read.For(ticket.View), func(ctx context.Context, in *route.InDesktop) (*route.Reply[api.About], error) {
		d, err := v.Host.Desktop(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		return &route.Reply[api.About]{Body: api.About{
			ID: d.ID, Name: d.Name, State: d.State, Waiting: d.Waiting, Failure: d.Failure, Display: d.Display, Keyboard: d.Keyboard,
			ControlPolicy: d.ControlPolicy,
		}}, nil
	})
}

// bound keeps a ticket that is made under another one to what that one is: it lets
// people watch, in no greater role, and no longer.
func (v *views) bound(ctx context.Context, req *api.CreateTicket) error {
	g := gate.Of(ctx).Grant
	if g == nil {
		return nil
	}
	if req.Kind != api.TicketView || req.Role == string(ticket.Admin) {
		return api.Errorf(api.CodeForbidden, "under a ticket others are made of kind view alone, of role view or control")
	}
	left := int(g.Expires.Sub(v.Now()).Seconds())
	req.TTLS = max(1, min(cmp.Or(req.TTLS, int(ticket.DefaultTTL.Seconds())), left))
	return nil
}
