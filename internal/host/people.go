package host

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/recording"
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
	return errors.Join(h.records(log), h.tickets.Keep(cfg.DataDir))
}

// records makes what records desktops.
func (h *Host) records(log recording.Log) (err error) {
	h.Recordings, err = recording.Open(recording.Config{
		Dir: filepath.Join(h.cfg.DataDir, recording.DirName), Limits: h.cfg.Recordings,
		Use: h.act, Find: h.Desktop, Publish: h.events.Publish, Log: log, Go: h.background,
		Follow: func(desktop string) recording.Events {
			return h.events.Subscribe(event.Filter{Desktop: desktop}, h.events.Last())
		},
		Usage: h.cfg.Usage, Now: h.cfg.Now, Logger: h.cfg.Logger,
	})
	return err
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
