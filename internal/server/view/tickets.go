package view

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

type ticketIn struct {
	route.InDesktop

	Body api.CreateTicket
}

type oneTicketIn struct {
	route.InDesktop

	Ticket string `path:"id" maxLength:"63"`
}

type wideTicketIn struct {
	Body api.CreateTicket
}

type wideTicketRef struct {
	Ticket string `path:"id" maxLength:"63"`
}

// registerWide is tickets of a project.
func (v *views) registerWide() {
	const path = "/v1/tickets"
	tags := []string{"control"}
	route.Call(v.routes, huma.Operation{
		OperationID: "create-project-ticket", Method: http.MethodPost, Path: path, Tags: tags,
		Summary:       "Make a link to the dashboard: under it a browser sees every desktop of the project",
		Description:   "Its kind is view. Role control makes desktops too, and lets them rest and go on; admin deletes them.",
		DefaultStatus: http.StatusCreated,
	}, route.Write, func(ctx context.Context, in *wideTicketIn) (*route.Reply[api.Ticket], error) {
		if in.Body.Kind != api.TicketView || in.Body.Port != 0 {
			return nil, api.Errorf(api.CodeInvalid, "a project's tickets are of kind view, and have no port")
		}
		t, err := v.Host.Views.Issue(ctx, gate.Of(ctx).Principal, "", in.Body)
		t.URL = v.Base(ctx) + t.URL
		return &route.Reply[api.Ticket]{Body: t}, err
	})
	route.Call(v.routes, huma.Operation{
		OperationID: "list-project-tickets", Method: http.MethodGet, Path: path, Tags: tags,
		Summary: "List the tickets of the project that are valid, without their secrets",
	}, route.Read, func(ctx context.Context, _ *struct{}) (*route.Reply[api.TicketList], error) {
		list, err := v.Host.Views.List(ctx, route.Project(ctx), "")
		return &route.Reply[api.TicketList]{Body: api.TicketList{Tickets: list}}, err
	})
	route.Call(v.routes, huma.Operation{
		OperationID: "revoke-project-ticket", Method: http.MethodDelete, Path: path + "/{id}", Tags: tags,
		Summary: "End a ticket of the project, and what was begun under it",
	}, route.Write, func(ctx context.Context, in *wideTicketRef) (*route.None, error) {
		return nil, v.Host.Views.Revoke(ctx, route.Project(ctx), "", in.Ticket)
	})
	summary := "Say what the caller's ticket, or token, lets a page do"
	route.Call(v.routes, huma.Operation{
		OperationID: "get-project-view", Method: http.MethodGet, Path: "/v1/view", Tags: tags, Summary: summary,
	}, route.Read.ForProject(ticket.View), func(ctx context.Context, _ *struct{}) (*route.Reply[api.View], error) {
		return &route.Reply[api.View]{Body: viewOf(ctx)}, nil
	})
	route.Call(v.routes, huma.Operation{
		OperationID: "get-view", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/view", Tags: tags, Summary: summary,
	}, route.Read.For(ticket.View), func(ctx context.Context, in *route.InDesktop) (*route.Reply[api.View], error) {
		d, err := v.Host.Desktop(ctx, route.Project(ctx), in.Desktop)
		got := viewOf(ctx)
		got.Desktop = d.ID
		return &route.Reply[api.View]{Body: got}, err
	})
}

// viewOf is what the caller may do.
func viewOf(ctx context.Context) api.View {
	st := gate.Of(ctx)
	if g := st.Grant; g != nil {
		return api.View{Desktop: g.Desktop, Project: g.Project, Role: string(g.Role), Expires: g.Expires.UTC()}
	}
	role := ticket.View
	switch p := st.Principal; {
	case p.Can(token.ScopeAdmin):
		role = ticket.Admin
	case p.Can(token.ScopeWrite):
		role = ticket.Control
	}
	return api.View{Project: st.Principal.Project, Role: string(role)}
}

func (v *views) registerTickets() {
	const path = "/v1/desktops/{desktop}/tickets"
	route.Call(v.routes, huma.Operation{
		OperationID: "create-ticket", Method: http.MethodPost, Path: path, Tags: []string{"network"},
		Summary:       "Make a short-lived link under which a browser reaches one port of the guest, or watches the desktop",
		Description:   "It ends with its time, with its token, or when it is revoked, and with it what was begun under it.",
		DefaultStatus: http.StatusCreated,
	}, route.Write.For(ticket.Admin), func(ctx context.Context, in *ticketIn) (*route.Reply[api.Ticket], error) {
		if err := v.bound(ctx, &in.Body); err != nil {
			return nil, err
		}
		issue := v.Host.Ports.Issue
		if in.Body.Kind == api.TicketView {
			issue = v.Host.Views.Issue
		}
		t, err := issue(ctx, gate.Of(ctx).Principal, in.Desktop, in.Body)
		t.URL = v.Base(ctx) + t.URL
		return &route.Reply[api.Ticket]{Body: t}, err
	})
	route.Call(v.routes, huma.Operation{
		OperationID: "list-tickets", Method: http.MethodGet, Path: path, Tags: []string{"network"},
		Summary: "List the tickets of a desktop that are valid, without their secrets",
	}, route.Read, func(ctx context.Context, in *route.InDesktop) (*route.Reply[api.TicketList], error) {
		list, err := v.Host.Views.List(ctx, route.Project(ctx), in.Desktop)
		return &route.Reply[api.TicketList]{Body: api.TicketList{Tickets: list}}, err
	})
	route.Call(v.routes, huma.Operation{
		OperationID: "revoke-ticket", Method: http.MethodDelete, Path: path + "/{id}", Tags: []string{"network"},
		Summary: "End a ticket, and what was begun under it",
	}, route.Write, func(ctx context.Context, in *oneTicketIn) (*route.None, error) {
		return nil, v.Host.Views.Revoke(ctx, route.Project(ctx), in.Desktop, in.Ticket)
	})
	v.routes.Stream(huma.Operation{
		OperationID: "open-view", Method: http.MethodPost, Path: "/v1/view", Tags: []string{"control"},
		Summary: "Exchange a ticket for the cookie of a browser",
		Description: "The cookie is for the routes of the ticket's desktop, by its id, alone, or for those of its project, and " +
			"counts with an Origin of this server. Programs send the ticket itself as bearer.",
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/json": {Schema: v.routes.Schema(api.OpenView{})},
		}},
		Responses: v.routes.AnswersJSON(http.StatusOK, api.View{}), Security: []map[string][]string{{}},
	}, route.Open, v.open)
}

// open answers a ticket with a cookie.
func (v *views) open(w http.ResponseWriter, r *http.Request) error {
	st := gate.Of(r.Context())
	if err := v.rate.Take(st.Client); err != nil {
		return err
	}
	var in api.OpenView
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return api.Errorf(api.CodeInvalid, "want {\"ticket\": …}")
	}
	secret, g, err := v.Host.Views.Exchange(in.Ticket)
	if err != nil {
		return err
	}
	http.SetCookie(w, gate.Cookie(st, g.Desktop, secret, g.Expires))
	w.Header().Set("Cache-Control", "no-store")
	return route.WriteJSON(w, http.StatusOK, api.View{Desktop: g.Desktop, Project: g.Project, Role: string(g.Role), Expires: g.Expires.UTC()})
}
