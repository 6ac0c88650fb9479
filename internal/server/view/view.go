// Package view serves people who watch desktops and act on them: tickets, the
// control lease, the screen over RFB, and files that are dropped.
package view

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

// Config is what the routes hang on.
type Config struct {
	Host *host.Host
	// Base is this server's address as the client of a request sees it.
	Base func(ctx context.Context) string
	// Heartbeat is the pause between signs of life on a WebSocket.
	Heartbeat time.Duration
	Now       func() time.Time
}

type views struct {
	Config

	routes *route.Table
	rate   *gate.Rate
}

// A client may exchange so many tickets at once, and one more each second.
const exchangeBurst = 30

// Register registers the routes.
func Register(t *route.Table, cfg Config) {
	v := &views{Config: cfg, routes: t, rate: gate.NewRate(exchangeBurst, time.Second, cfg.Now)}
	v.registerTickets()
	v.registerWide()
	v.registerControl()
	v.registerRFB()
	v.registerDrop()
	v.registerAbout()
}

// Holder is who makes a request, as the control lease knows him. Under a ticket
// that is a person with a name of his own; a token's caller names himself.
func Holder(ctx context.Context, name string, as api.ControlKind) control.Holder {
	st := gate.Of(ctx)
	if g := st.Grant; g != nil {
		return control.Holder{
			Name: "viewer-" + cmp.Or(g.Session, g.ID), By: "ticket:" + g.ID, Kind: api.ControlPerson, Admin: g.Role == ticket.Admin,
		}
	}
	p := st.Principal
	return control.Holder{
		Name: cmp.Or(name, p.TokenID), By: "token:" + p.TokenID, Kind: cmp.Or(as, api.ControlAgent),
		Admin: as == api.ControlPerson && p.Can(token.ScopeAdmin),
	}
}

type changeIn struct {
	route.InDesktop

	Wait   string `query:"wait" maxLength:"32" doc:"Of request: how long to wait for it, e.g. 30s"`
	Holder string `header:"Deskfork-Holder" maxLength:"128" doc:"Who calls, when the body does not say; default: the token"`
	Body   api.ChangeControl
}

type statusIn struct {
	route.InDesktop

	Holder string `header:"Deskfork-Holder" maxLength:"128" doc:"Who asks; default: the token"`
}

type policyIn struct {
	route.InDesktop

	Body api.ControlPolicy
}

type auditIn struct {
	route.InDesktop

	Before int64 `query:"before" minimum:"0" doc:"Lines older than this one; default: the newest"`
	Limit  int   `query:"limit" default:"100" minimum:"1" maximum:"1000"`
}

func (v *views) registerControl() {
	tags := []string{"control"}
	const path = "/v1/desktops/{desktop}/control"
	route.Call(v.routes, huma.Operation{
		OperationID: "get-control", Method: http.MethodGet, Path: path, Tags: tags, Summary: "Who may send input to a desktop",
	}, route.Read.For(ticket.View), func(ctx context.Context, in *statusIn) (*route.Reply[api.Control], error) {
		d, err := v.Host.Desktop(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		got, err := v.Host.Controls.Status(ctx, d.ID, Holder(ctx, in.Holder, ""))
		return &route.Reply[api.Control]{Body: got}, err
	})
	route.Call(v.routes, huma.Operation{
		OperationID: "change-control", Method: http.MethodPost, Path: path, Tags: tags,
		Summary: "Request, take, give, release or renew the control lease",
		Description: "Whoever loses control by it has his calls ended with control_held, and what he holds down is let go " +
			"before this answers.",
	}, route.Write.Long().For(ticket.Control), v.change)
	route.Call(v.routes, huma.Operation{
		OperationID: "set-control-policy", Method: http.MethodPut, Path: path + "/policy", Tags: tags,
		Summary: "Say what people may do to a desktop", Description: "Replaces the whole policy.",
	}, route.Write.For(ticket.Admin), func(ctx context.Context, in *policyIn) (*route.Reply[api.Desktop], error) {
		d, err := v.Host.Settings.SetControl(ctx, route.Project(ctx), in.Desktop, in.Body)
		return &route.Reply[api.Desktop]{Body: d}, err
	})
	route.Call(v.routes, huma.Operation{
		OperationID: "audit", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/audit", Tags: tags,
		Summary: "Who had control of a desktop and who watched it, newest first",
	}, route.Read, func(ctx context.Context, in *auditIn) (*route.Reply[api.AuditLog], error) {
		list, err := v.Host.Viewers.Audit(ctx, route.Project(ctx), in.Desktop, in.Before, in.Limit)
		return &route.Reply[api.AuditLog]{Body: api.AuditLog{Entries: list}}, err
	})
}

func (v *views) change(ctx context.Context, in *changeIn) (*route.Reply[api.Control], error) {
	wait, err := param.Wait(in.Wait, 0)
	if err != nil {
		return nil, err
	}
	d, err := v.Host.Desktop(ctx, route.Project(ctx), in.Desktop)
	if err != nil {
		return nil, err
	}
	who := Holder(ctx, cmp.Or(in.Body.Holder, in.Holder), in.Body.As)
	got, err := v.Host.Controls.Change(ctx, d.ID, who, in.Body, wait)
	return &route.Reply[api.Control]{Body: got}, err
}
