package control

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

const (
	// DefaultTTL is how long a holder may be silent.
	DefaultTTL = 30 * time.Second
	// drainLimit bounds the wait for calls that were cancelled, and letting go of
	// keys after them: a guest that hangs keeps nobody from taking over.
	drainLimit = 5 * time.Second
)

// Log keeps what happened. See store.Audits.
type Log interface {
	AddAudit(ctx context.Context, a store.Audit) error
	LastControl(ctx context.Context, desktop string) (store.Audit, error)
}

// Config is what a desk is made of. All members are required.
type Config struct {
	Log Log
	// Look describes a desktop by its id, with its live parts, nil when it has none;
	// false when there is no such desktop.
	Look func(id string) (api.Desktop, *live.Desktop, bool)
	// Use finds the live parts of a desktop that runs.
	Use     func(ctx context.Context, project, ref string) (*live.Desktop, api.Desktop, error)
	Publish func(project, typ, desktop string, data map[string]any)
	Now     func() time.Time
	Logger  *slog.Logger
}

// Desk keeps the control leases of all desktops. Safe for concurrent use.
type Desk struct {
	cfg Config

	mu    sync.Mutex
	by    map[string]*entry // guarded by mu; by desktop
	tasks sync.WaitGroup    // begun under an entry's mu while closed is unset
}

// New makes a desk. It starts nothing.
func New(cfg Config) *Desk { return &Desk{cfg: cfg, by: map[string]*entry{}} }

// entry is one desktop's lease and what is done under it.
type entry struct {
	id string

	mu          sync.Mutex
	lease       Lease            // guarded by mu
	project     string           // guarded by mu
	incarnation string           // guarded by mu; empty: the log was not read yet
	calls       map[*inside]bool // guarded by mu; all of the present epoch
	settled     chan struct{}    // guarded by mu; closed when the last hand-over is over
	changed     chan struct{}    // guarded by mu; closed and replaced at each change
	timer       *time.Timer      // guarded by mu; nil while nobody holds the lease
	gone        bool             // guarded by mu
}

// inside is a call that was let in.
type inside struct {
	cancel context.CancelCauseFunc
	left   chan struct{}
}

// open finds the entry of a desktop, locked and up to date with its incarnation.
func (d *Desk) open(ctx context.Context, id string) (*entry, api.Desktop, error) {
	v, _, ok := d.cfg.Look(id)
	if !ok {
		return nil, v, api.Errorf(api.CodeNotFound, "no desktop %q", id)
	}
	d.mu.Lock()
	e := d.by[id]
	if e == nil {
		e = &entry{id: id, calls: map[*inside]bool{}, settled: make(chan struct{}), changed: make(chan struct{})}
		close(e.settled)
		d.by[id] = e
	}
	d.mu.Unlock()
	e.mu.Lock()
	if err := d.catchUp(ctx, e, v); err != nil {
		e.mu.Unlock()
		return nil, v, err
	}
	return e, v, nil
}

// catchUp reads the epoch that an earlier run of the host has left, and ends the
// lease over an incarnation that is not there any more. e.mu is held.
func (d *Desk) catchUp(ctx context.Context, e *entry, v api.Desktop) error {
	if e.incarnation == "" {
		last, err := d.cfg.Log.LastControl(ctx, e.id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		e.project, e.incarnation, e.lease.Epoch = v.Project, cmp.Or(last.Incarnation, v.Incarnation), max(last.Epoch, 1)
		if last.Held {
			was := Holder{Name: last.Who, By: last.By, Kind: api.ControlKind(last.Kind)}
			e.lease.Holder = was
			e.incarnation = v.Incarnation
			return d.change(ctx, e, event.TypeControlLost, "the host was restarted", func() error { e.lease.end(); return nil })
		}
	}
	if e.incarnation == v.Incarnation {
		return nil
	}
	e.incarnation = v.Incarnation
	return d.change(ctx, e, event.TypeControlLost, "the desktop has another incarnation", func() error { e.lease.end(); return nil })
}

// change changes the lease, writes that down, and hands over if the epoch is
// another one then. What cannot be written is not done, unless a lease ends: that
// cannot wait. e.mu is held.
func (d *Desk) change(ctx context.Context, e *entry, what, detail string, do func() error) error {
	before := e.lease
	if err := do(); err != nil {
		return err
	}
	now := e.lease
	if now.Epoch == before.Epoch {
		d.arm(e) //nolint:contextcheck // a lease ends whoever has changed it
		return nil
	}
	who := now.Holder
	if who.none() {
		who = before.Holder
	}
	row := store.Audit{Project: e.project, Held: now.Held(), AuditEntry: api.AuditEntry{
		Time: d.cfg.Now().UTC(), Desktop: e.id, Incarnation: e.incarnation, What: what, Epoch: now.Epoch,
		Who: who.Name, Kind: string(who.Kind), By: who.By, Detail: detail,
	}}
	if err := d.cfg.Log.AddAudit(context.WithoutCancel(ctx), row); err != nil {
		if now.Held() {
			e.lease = before
			return err
		}
		d.cfg.Logger.Error("end of a control lease not written", "desktop", e.id, "err", err)
	}
	data := map[string]any{"epoch": now.Epoch, "holder": who.Name, "kind": string(who.Kind)}
	if before.Held() && now.Held() {
		data["from"] = before.Holder.Name
	}
	if detail != "" {
		data["reason"] = detail
	}
	if before.Held() || now.Held() {
		d.cfg.Publish(e.project, what, e.id, data)
	}
	d.handOver(e) //nolint:contextcheck // what is begun is finished
	d.arm(e)      //nolint:contextcheck // a lease ends whoever has changed it
	return nil
}

// handOver cancels the calls of the epoch that has ended, and lets go of what is
// held down when they have returned. e.mu is held.
func (d *Desk) handOver(e *entry) {
	why := e.lease.refuse("control has changed hands")
	ending := e.calls
	e.calls = map[*inside]bool{}
	before, settled := e.settled, make(chan struct{})
	e.settled = settled
	close(e.changed)
	e.changed = make(chan struct{})
	for c := range ending {
		c.cancel(why)
	}
	d.tasks.Go(func() {
		defer close(settled)
		<-before
		ctx, cancel := context.WithTimeout(context.Background(), drainLimit)
		defer cancel()
		for c := range ending {
			select {
			case <-c.left:
			case <-ctx.Done():
				d.cfg.Logger.Warn("a call goes on although control has changed hands", "desktop", e.id)
			}
		}
		ctx, done := context.WithTimeout(context.Background(), drainLimit)
		defer done()
		if err := d.letGo(ctx, e.id); err != nil {
			d.cfg.Logger.Warn("keys and buttons not released", "desktop", e.id, "err", err)
		}
	})
}

// letGo releases what is held down in a desktop, and wipes a clipboard that is
// shared with people.
func (d *Desk) letGo(ctx context.Context, id string) error {
	v, l, _ := d.cfg.Look(id)
	if l == nil || v.State == api.StatePaused {
		return nil
	}
	err := l.Input.Release(ctx)
	if in := l.Display.Input; in != nil {
		err = errors.Join(err, in.Release(ctx))
	}
	if c := v.ControlPolicy.Clipboard; c != "" && c != "none" {
		err = errors.Join(err, l.Windows.SetClipboard(ctx, guest.Clipboard{Type: "text/plain"}))
	}
	return err
}

// arm makes the lease end in time. e.mu is held.
func (d *Desk) arm(e *entry) {
	if !e.lease.Held() || e.gone {
		if e.timer != nil {
			e.timer.Stop()
			e.timer = nil
		}
		return
	}
	left := max(e.lease.Until.Sub(d.cfg.Now()), 0)
	if e.timer != nil {
		e.timer.Reset(left)
		return
	}
	e.timer = time.AfterFunc(left, func() { d.expire(e) })
}

// expire ends a lease whose holder is silent. One whose call is under way is not.
func (d *Desk) expire(e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return
	}
	if len(e.calls) > 0 && e.lease.Held() {
		e.lease.heard(d.cfg.Now())
	}
	_ = d.change(context.Background(), e, event.TypeControlLost, "its holder was not heard of", func() error { // an end fails for nobody
		e.lease.Expire(d.cfg.Now())
		return nil
	})
}

// Close waits for what was begun. No call is in progress, and none comes.
func (d *Desk) Close() {
	d.mu.Lock()
	list := make([]*entry, 0, len(d.by))
	for _, e := range d.by {
		list = append(list, e)
	}
	d.mu.Unlock()
	for _, e := range list {
		e.shut()
	}
	d.tasks.Wait()
}

// shut stops the clock of a lease.
func (e *entry) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gone = true
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// Forget drops the lease of a desktop that is gone, and ends its calls.
func (d *Desk) Forget(id string) {
	d.mu.Lock()
	e := d.by[id]
	delete(d.by, id)
	d.mu.Unlock()
	if e == nil {
		return
	}
	e.shut()
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.calls {
		c.cancel(api.Errorf(api.CodeNotFound, "desktop %s was deleted", id))
	}
	close(e.changed)
	e.changed = make(chan struct{})
}

// Revoke ends the leases that are held by an authority that is no more.
func (d *Desk) Revoke(by string) {
	d.mu.Lock()
	list := make([]*entry, 0, len(d.by))
	for _, e := range d.by {
		list = append(list, e)
	}
	d.mu.Unlock()
	for _, e := range list {
		e.mu.Lock()
		if e.lease.Holder.By == by {
			_ = d.change(context.Background(), e, event.TypeControlLost, "its authority was revoked", func() error { e.lease.end(); return nil })
		}
		e.mu.Unlock()
	}
}
