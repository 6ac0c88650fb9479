package ticket

import (
	"context"
	"net"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
)

// Ports reaches the ports of guests.
type Ports struct {
	Book *Book
	// Find describes a desktop by id or name.
	Find func(ctx context.Context, project, ref string) (api.Desktop, error)
	// Guest returns the live parts of a desktop whose guestd has answered.
	Guest func(ctx context.Context, project, ref string) (*live.Desktop, error)
}

// Issue makes a short-lived link to one port of a desktop. It ends with the
// token of who asks for it.
func (p *Ports) Issue(ctx context.Context, who token.Principal, ref string, req api.CreateTicket) (api.Ticket, error) {
	if req.Port == 0 {
		return api.Ticket{}, api.Errorf(api.CodeInvalid, "a preview needs a port")
	}
	v, err := p.Find(ctx, who.Project, ref)
	if err != nil {
		return api.Ticket{}, err
	}
	grant := Grant{Desktop: v.ID, Project: who.Project, Token: who.TokenID, Port: req.Port}
	secret, err := p.Book.Issue(grant, time.Duration(req.TTLS)*time.Second)
	if err != nil {
		return api.Ticket{}, coded(err)
	}
	g, err := p.Book.Check(secret)
	return api.Ticket{ID: g.ID, Ticket: secret, URL: "/preview/" + secret + "/", Port: g.Port, Expires: g.Expires.UTC()}, coded(err)
}

// Check answers what a ticket opens.
func (p *Ports) Check(secret string) (Grant, error) {
	g, err := p.Book.Check(secret)
	if err == nil && g.Port == 0 {
		err = ErrUnknown
	}
	return g, coded(err)
}

// DialTicket connects to the port that a ticket opens.
func (p *Ports) DialTicket(ctx context.Context, g Grant) (net.Conn, error) {
	return p.Dial(ctx, g.Project, g.Desktop, g.Port)
}

// Dial connects to a port of the guest as the guest sees it, loopback included.
func (p *Ports) Dial(ctx context.Context, project, ref string, port int) (net.Conn, error) {
	l, err := p.Guest(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	return l.Link.Dial(ctx, port)
}
