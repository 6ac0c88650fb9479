package ticket

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
)

// Role is what the holder of a ticket may do with a desktop; each has the ones
// before it.
type Role string

// Roles.
const (
	View    Role = "view"    // look
	Control Role = "control" // take control, paste, drop files; of a project: make desktops, let them rest and go on
	Admin   Role = "admin"   // take control from anybody; of a project: delete desktops
)

func roles() []Role { return []Role{View, Control, Admin} }

// Can says whether a role has another one.
func (r Role) Can(other Role) bool {
	has, wants := slices.Index(roles(), r), slices.Index(roles(), other)
	return wants >= 0 && has >= wants
}

// Views are tickets that let people watch desktops.
type Views struct {
	Book *Book
	// Find describes a desktop by id or name.
	Find func(ctx context.Context, project, ref string) (api.Desktop, error)
	// Log has who may watch.
	Log Log
	Now func() time.Time
}

// Log keeps what happened. See store.Audits.
type Log interface {
	AddAudit(ctx context.Context, a store.Audit) error
}

// ViewPath is where the page of a desktop is. The ticket follows behind a #: a
// browser sends that to nobody, so that it is in no log.
const ViewPath = "/view/"

// projectPath is where the page of a project is, with its ticket in the same place.
const projectPath = "/"

// projectTTL is how long a ticket of a project is valid when nothing is said: a day's
// work.
const projectTTL = 8 * time.Hour

// Issue makes a ticket that lets people watch a desktop in a role, view if none is
// named; with an empty ref every desktop of the project. It ends with the token of
// who asks for it.
func (v *Views) Issue(ctx context.Context, who token.Principal, ref string, req api.CreateTicket) (api.Ticket, error) {
	role := Role(req.Role)
	if role == "" {
		role = View
	}
	if !role.Can(View) {
		return api.Ticket{}, api.Errorf(api.CodeInvalid, "unknown role %q: want view, control or admin", role)
	}
	if role == Admin && !who.Can(token.ScopeAdmin) {
		return api.Ticket{}, api.Errorf(api.CodeForbidden, "a ticket of role admin takes a token of scope %q", token.ScopeAdmin)
	}
	page, ttl := projectPath, cmp.Or(time.Duration(req.TTLS)*time.Second, projectTTL)
	d, err := v.about(ctx, who.Project, ref)
	if err != nil {
		return api.Ticket{}, err
	}
	if ref != "" {
		page, ttl = ViewPath+url.PathEscape(d.ID), time.Duration(req.TTLS)*time.Second
	}
	secret, err := v.Book.Issue(Grant{Desktop: d.ID, Project: who.Project, Token: who.TokenID, Role: role}, ttl)
	if err != nil {
		return api.Ticket{}, coded(err)
	}
	g, err := v.Book.Check(secret)
	if err != nil {
		return api.Ticket{}, coded(err)
	}
	err = v.Log.AddAudit(context.WithoutCancel(ctx), store.Audit{Project: g.Project, AuditEntry: api.AuditEntry{
		Time: v.Now().UTC(), Desktop: d.ID, Incarnation: d.Incarnation, What: "ticket.issued", Who: g.ID, By: "token:" + g.Token,
		Detail: string(role) + " until " + g.Expires.UTC().Format(time.RFC3339),
	}})
	if err != nil {
		v.Book.RevokeID(g.Project, d.ID, g.ID)
		return api.Ticket{}, err
	}
	return api.Ticket{ID: g.ID, Ticket: secret, URL: page + "#ticket=" + secret, Expires: g.Expires.UTC(), Role: string(role)}, nil
}

// Exchange makes the secret of one browser.
func (v *Views) Exchange(secret string) (string, Grant, error) {
	session, g, err := v.Book.Exchange(secret)
	return session, g, coded(err)
}

// Check answers what a ticket with a role, or a browser's secret, opens.
func (v *Views) Check(secret string) (Grant, error) {
	g, err := v.Book.Check(secret)
	if err == nil && g.Role == "" {
		err = ErrUnknown
	}
	return g, coded(err)
}

// List lists the tickets of a desktop without their secrets, ports' too; with an
// empty ref those of the project.
func (v *Views) List(ctx context.Context, project, ref string) ([]api.Ticket, error) {
	d, err := v.about(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	list := []api.Ticket{}
	for _, g := range v.Book.Of(project, d.ID) {
		list = append(list, api.Ticket{ID: g.ID, Role: string(g.Role), Port: g.Port, Expires: g.Expires.UTC()})
	}
	return list, nil
}

// Revoke ends a ticket, what was begun under it included.
func (v *Views) Revoke(ctx context.Context, project, ref, id string) error {
	d, err := v.about(ctx, project, ref)
	if err != nil {
		return err
	}
	if !v.Book.RevokeID(project, d.ID, id) {
		return api.Errorf(api.CodeNotFound, "%s has no ticket %q", cmp.Or(d.Name, "the project"), id)
	}
	return nil
}

// about describes the desktop of a ticket; an empty ref is a project's.
func (v *Views) about(ctx context.Context, project, ref string) (api.Desktop, error) {
	if ref == "" {
		return api.Desktop{}, nil
	}
	return v.Find(ctx, project, ref)
}

// coded gives errors of a book their codes.
func coded(err error) error {
	switch {
	case errors.Is(err, ErrTooMany), errors.Is(err, ErrInUse):
		return api.Errorf(api.CodeRateLimited, "%s", err)
	case errors.Is(err, ErrUnknown):
		return api.Errorf(api.CodeUnauthorized, "%s", err)
	}
	return err
}
