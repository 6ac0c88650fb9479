// Package viewer is people who watch desktops and act on them, over whatever
// carries pixels and events: it counts who watches, and lets through what the
// control lease allows.
package viewer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Watched is a desktop that somebody looks at.
type Watched struct {
	Desktop api.Desktop
	Live    *live.Desktop
	// Leave says that nobody looks any more.
	Leave func()
}

// Config is what a desk is made of. All members are required.
type Config struct {
	// Watch finds a desktop that has a screen, and keeps it from resting.
	Watch func(ctx context.Context, project, ref string) (Watched, error)
	// Find describes a desktop by id or name.
	Find func(ctx context.Context, project, ref string) (api.Desktop, error)
	// Look describes a desktop by its id, with its live parts.
	Look    func(id string) (api.Desktop, *live.Desktop, bool)
	Control *control.Desk
	// Count counts a viewer of an incarnation until leave is called.
	Count   func(inc vm.Incarnation) (leave func())
	Log     Log
	Publish func(project, typ, desktop string, data map[string]any)
	Now     func() time.Time
	Logger  *slog.Logger
}

// Log keeps what happened. See store.Audits.
type Log interface {
	AddAudit(ctx context.Context, a store.Audit) error
	AuditLog(ctx context.Context, desktop string, before int64, limit int) ([]api.AuditEntry, error)
}

// Desk lets viewers in. Safe for concurrent use.
type Desk struct {
	cfg Config

	mu     sync.Mutex
	visits map[seat]int // guarded by mu
}

// seat is who watches a desktop, perhaps in several ways at once: a browser that
// tries another way is the same person.
type seat struct {
	desktop string // id
	who     control.Holder
}

// New makes a desk.
func New(cfg Config) *Desk { return &Desk{cfg: cfg, visits: map[seat]int{}} }

// sit counts a visit of a seat: by 1 or -1. It answers how many there are.
func (d *Desk) sit(s seat, by int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.visits[s] += by
	n := d.visits[s]
	if n == 0 {
		delete(d.visits, s)
	}
	return n
}

// Audit lists what happened to the control of a desktop and who watched it, newest
// first, before a line (0: from the newest on).
func (d *Desk) Audit(ctx context.Context, project, ref string, before int64, limit int) ([]api.AuditEntry, error) {
	v, err := d.cfg.Find(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	return d.cfg.Log.AuditLog(ctx, v.ID, before, limit)
}

// Viewer is who watches.
type Viewer struct {
	Project string
	Desktop string // id or name
	Role    ticket.Role
	Who     control.Holder
	Via     string // rfb, webrtc, websocket
}

// Join lets a viewer in: use and audit count it until Leave. Whatever carries
// pixels to somebody joins first.
func (d *Desk) Join(ctx context.Context, v Viewer) (*Visit, error) {
	w, err := d.cfg.Watch(ctx, v.Project, v.Desktop)
	if err != nil {
		return nil, err
	}
	if w.Live.Display.Source == nil {
		w.Leave()
		return nil, api.Errorf(api.CodeUnsupported, "desktop %s has no screen that could be watched", w.Desktop.Name)
	}
	visit := &Visit{desk: d, who: v, w: w, begun: d.cfg.Now(), uncount: d.cfg.Count(vm.Incarnation(w.Desktop.Incarnation))}
	d.sit(visit.seat(), 1)
	if err := d.note(ctx, visit, event.TypeViewerJoined, v.Via+" as "+string(v.Role)); err != nil {
		d.sit(visit.seat(), -1)
		visit.uncount()
		w.Leave()
		return nil, err
	}
	return visit, nil
}

// note writes down and publishes what a visitor did.
func (d *Desk) note(ctx context.Context, v *Visit, what, detail string) error {
	err := d.cfg.Log.AddAudit(context.WithoutCancel(ctx), store.Audit{Project: v.who.Project, AuditEntry: api.AuditEntry{
		Time: d.cfg.Now().UTC(), Desktop: v.w.Desktop.ID, Incarnation: v.w.Desktop.Incarnation, What: what,
		Who: v.who.Who.Name, Kind: string(v.who.Who.Kind), By: v.who.Who.By, Detail: detail,
	}})
	if err != nil {
		return err
	}
	d.cfg.Publish(v.who.Project, what, v.w.Desktop.ID, map[string]any{
		"viewer": v.who.Who.Name, "role": string(v.who.Role), "via": v.who.Via,
	})
	return nil
}

// Visit is one viewer's stay. Safe for concurrent use.
type Visit struct {
	desk    *Desk
	who     Viewer
	w       Watched
	begun   time.Time
	uncount func()
	once    sync.Once

	mu    sync.Mutex
	hands hands // guarded by mu
}

// Desktop is what is watched, as it was when the viewer came.
func (v *Visit) Desktop() api.Desktop { return v.w.Desktop }

// Controls says whether the viewer's role lets him act at all.
func (v *Visit) Controls() bool { return v.who.Role.Can(ticket.Control) }

// Display is the screen. Its source fails when the machine is replaced or gone;
// its input is for Visit's own methods, which look at the lease.
func (v *Visit) Display() live.Display {
	return live.Display{Source: v.w.Live.Display.Source, Input: v, Stream: v.w.Live.Display.Stream}
}

func (v *Visit) seat() seat { return seat{v.w.Desktop.ID, v.who.Who} }

// Leave ends the stay: what is held down is let go, and control goes back unless
// the same person watches in another way still. It may be called again.
func (v *Visit) Leave() {
	v.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveLimit)
		defer cancel()
		var err error
		if v.desk.sit(v.seat(), -1) > 0 {
			err = v.Release(ctx)
		} else {
			_, err = v.desk.cfg.Control.Change(ctx, v.w.Desktop.ID, v.who.Who, api.ChangeControl{Action: api.ControlRelease}, 0)
		}
		if err != nil && !errors.Is(err, &api.Error{Code: api.CodeControlHeld}) && !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			v.desk.cfg.Logger.Warn("control not released", "desktop", v.w.Desktop.ID, "err", err)
		}
		v.uncount()
		v.w.Leave()
		took := v.desk.cfg.Now().Sub(v.begun).Round(time.Second)
		if err := v.desk.note(ctx, v, event.TypeViewerLeft, "after "+took.String()); err != nil {
			v.desk.cfg.Logger.Warn("end of a visit not written", "desktop", v.w.Desktop.ID, "err", err)
		}
	})
}

// leaveLimit bounds what is done for somebody who has gone.
const leaveLimit = 10 * time.Second
