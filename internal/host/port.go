package host

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/pkg/api"
)

// Ports reaches the ports of guests.
type Ports struct{ h *Host }

// Issue makes a short-lived link to one port of a desktop.
func (p *Ports) Issue(ctx context.Context, project, ref string, req api.CreateTicket) (api.Ticket, error) {
	v, err := p.h.Desktop(ctx, project, ref)
	if err != nil {
		return api.Ticket{}, err
	}
	secret, err := p.h.tickets.Issue(
		ticket.Grant{Desktop: v.ID, Project: project, Port: req.Port}, time.Duration(req.TTLS)*time.Second)
	if errors.Is(err, ticket.ErrTooMany) {
		return api.Ticket{}, api.Errorf(api.CodeRateLimited, "%s", err)
	}
	if err != nil {
		return api.Ticket{}, err
	}
	return api.Ticket{Ticket: secret, URL: "/preview/" + secret + "/"}, nil
}

// Check answers what a ticket opens.
func (p *Ports) Check(secret string) (ticket.Grant, error) {
	g, err := p.h.tickets.Check(secret)
	if err != nil {
		return ticket.Grant{}, api.Errorf(api.CodeUnauthorized, "%s", err)
	}
	return g, nil
}

// DialTicket connects to the port that a ticket opens.
func (p *Ports) DialTicket(ctx context.Context, g ticket.Grant) (net.Conn, error) {
	return p.Dial(ctx, g.Project, g.Desktop, g.Port)
}

// Dial connects to a port of the guest as the guest sees it, loopback included.
func (p *Ports) Dial(ctx context.Context, project, ref string, port int) (net.Conn, error) {
	l, err := p.h.Guest(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	return l.Link.Dial(ctx, port)
}
