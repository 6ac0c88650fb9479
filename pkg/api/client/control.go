package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// Control is who may send input to a desktop, and who watches it.
type Control struct{ d *handle }

// Control is the desktop's control lease.
func (d *handle) Control() *Control { return &Control{d} }

// Status says who has control.
func (c *Control) Status(ctx context.Context) (api.Control, error) {
	return fetch[api.Control](ctx, c.d.c, call{path: c.d.path("/control")})
}

// Change requests, takes, gives, releases or renews control. A request waits so long
// for its turn; 0: not at all.
func (c *Control) Change(ctx context.Context, change api.ChangeControl, wait time.Duration) (api.Control, error) {
	q := url.Values{}
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	return fetch[api.Control](ctx, c.d.c, call{method: http.MethodPost, path: c.d.path("/control"), query: q, json: change})
}

// SetPolicy says what people may do to the desktop; it replaces the whole policy.
func (c *Control) SetPolicy(ctx context.Context, policy api.ControlPolicy) (api.Desktop, error) {
	return fetch[api.Desktop](ctx, c.d.c, call{method: http.MethodPut, path: c.d.path("/control/policy"), json: policy, same: true})
}

// Audit lists who had control and who watched, newest first, a hundred lines before
// one (0: the newest).
func (c *Control) Audit(ctx context.Context, before int64) ([]api.AuditEntry, error) {
	q := url.Values{"before": {strconv.FormatInt(before, 10)}}
	log, err := fetch[api.AuditLog](ctx, c.d.c, call{path: c.d.path("/audit"), query: q})
	return log.Entries, err
}

// Tickets are links by which browsers reach the desktop for a while.
type Tickets struct{ d *handle }

// Tickets makes and ends tickets of the desktop.
func (d *handle) Tickets() *Tickets { return &Tickets{d} }

// Create makes a ticket; its secret is in this answer and never said again.
func (t *Tickets) Create(ctx context.Context, spec api.CreateTicket) (api.Ticket, error) {
	return fetch[api.Ticket](ctx, t.d.c, call{method: http.MethodPost, path: t.d.path("/tickets"), json: spec})
}

// List lists tickets without their secrets.
func (t *Tickets) List(ctx context.Context) ([]api.Ticket, error) {
	list, err := fetch[api.TicketList](ctx, t.d.c, call{path: t.d.path("/tickets")})
	return list.Tickets, err
}

// Delete ends a ticket, and what was begun under it.
func (t *Tickets) Delete(ctx context.Context, id string) error {
	return t.d.c.run(ctx, call{method: http.MethodDelete, path: t.d.path("/tickets/" + seg(id))})
}
