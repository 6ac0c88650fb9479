package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Control is who may send input to a desktop, and who watches it.
type Control struct{ d *handle }

// Control is the desktop's control lease.
func (d *handle) Control() *Control { return &Control{d} }

// Status says who has control.
func (c *Control) Status(ctx context.Context) (api.Control, error) {
	return wire.Fetch[api.Control](ctx, c.d.c.server, wire.Call{Path: c.d.path("/control")})
}

// Change requests, takes, gives, releases or renews control. A request waits so long
// for its turn; 0: not at all.
func (c *Control) Change(ctx context.Context, change api.ChangeControl, wait time.Duration) (api.Control, error) {
	q := url.Values{}
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	return wire.Fetch[api.Control](ctx, c.d.c.server, wire.Call{Method: http.MethodPost, Path: c.d.path("/control"), Query: q, JSON: change})
}

// SetPolicy says what people may do to the desktop; it replaces the whole policy.
func (c *Control) SetPolicy(ctx context.Context, policy api.ControlPolicy) (api.Desktop, error) {
	return wire.Fetch[api.Desktop](ctx, c.d.c.server, wire.Call{Method: http.MethodPut, Path: c.d.path("/control/policy"), JSON: policy, Same: true})
}

// Audit lists who had control and who watched, newest first, a hundred lines before
// one (0: the newest).
func (c *Control) Audit(ctx context.Context, before int64) ([]api.AuditEntry, error) {
	q := url.Values{"before": {strconv.FormatInt(before, 10)}}
	log, err := wire.Fetch[api.AuditLog](ctx, c.d.c.server, wire.Call{Path: c.d.path("/audit"), Query: q})
	return log.Entries, err
}

// Tickets are links by which browsers reach the desktop for a while.
type Tickets struct{ d *handle }

// Tickets makes and ends tickets of the desktop.
func (d *handle) Tickets() *Tickets { return &Tickets{d} }

// Create makes a ticket; its secret is in this answer and never said again.
func (t *Tickets) Create(ctx context.Context, spec api.CreateTicket) (api.Ticket, error) {
	return wire.Fetch[api.Ticket](ctx, t.d.c.server, wire.Call{Method: http.MethodPost, Path: t.d.path("/tickets"), JSON: spec})
}

// List lists tickets without their secrets.
func (t *Tickets) List(ctx context.Context) ([]api.Ticket, error) {
	list, err := wire.Fetch[api.TicketList](ctx, t.d.c.server, wire.Call{Path: t.d.path("/tickets")})
	return list.Tickets, err
}

// ProjectTickets are links by which browsers see every desktop of the token's project
// for a while.
type ProjectTickets struct{ c *Client }

// ProjectTickets are the tickets of the project.
func (c *Client) ProjectTickets() *ProjectTickets { return &ProjectTickets{c} }

// Create makes a link to the dashboard; its secret is in this answer and never said
// again. The kind of the ticket is api.TicketView.
func (t *ProjectTickets) Create(ctx context.Context, spec api.CreateTicket) (api.Ticket, error) {
	return wire.Fetch[api.Ticket](ctx, t.c.server, wire.Call{Method: http.MethodPost, Path: "/v1/tickets", JSON: spec})
}

// List lists tickets without their secrets.
func (t *ProjectTickets) List(ctx context.Context) ([]api.Ticket, error) {
	list, err := wire.Fetch[api.TicketList](ctx, t.c.server, wire.Call{Path: "/v1/tickets"})
	return list.Tickets, err
}

// Delete ends a ticket, and what was begun under it.
func (t *ProjectTickets) Delete(ctx context.Context, id string) error {
	return t.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: "/v1/tickets/" + wire.Seg(id)})
}

// Delete ends a ticket, and what was begun under it.
func (t *Tickets) Delete(ctx context.Context, id string) error {
	return t.d.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: t.d.path("/tickets/" + wire.Seg(id))})
}
