package host

import (
	"context"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/internal/host/viewer"
)

// people makes what lets people watch and act.
func (h *Host) people(db *store.Store, book *usage.Book) error {
	cfg, log := h.cfg, store.Audits{Store: db}
	h.Controls = control.New(control.Config{
		Log: log, Look: h.look, Use: h.act, Publish: h.events.Publish, Now: cfg.Now, Logger: cfg.Logger,
	})
	h.tickets = ticket.New(cfg.Now, func(id string) { h.Controls.Revoke("ticket:" + id) })
	h.Views = &ticket.Views{Book: h.tickets, Find: h.Desktop, Log: log, Now: cfg.Now}
	h.Viewers = viewer.New(viewer.Config{
		Watch: h.watch, Find: h.Desktop, Look: h.look, Control: h.Controls, Count: book.Watch, Log: log, Publish: h.events.Publish,
		Now: cfg.Now, Logger: cfg.Logger,
	})
	h.Access.OnRevoke(func(id string) {
		h.tickets.RevokeToken(id)
		h.Controls.Revoke("token:" + id)
	})
	return h.tickets.Keep(cfg.DataDir)
}

// watch finds the screen of a desktop for somebody who looks at it: that is use.
func (h *Host) watch(ctx context.Context, project, ref string) (viewer.Watched, error) {
	l, v, err := h.use(ctx, project, ref)
	if err != nil {
		return viewer.Watched{}, err
	}
	d, err := h.find(project, ref)
	if err != nil {
		return viewer.Watched{}, err
	}
	return viewer.Watched{Desktop: v, Live: l, Leave: d.Meter.Enter()}, nil
}
