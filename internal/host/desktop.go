package host

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// errDeleted is why the start of a desktop ends when it is deleted.
var errDeleted = errors.New("the desktop is being deleted")

// desktop is one desktop and its actor.
type desktop struct {
	host    *Host
	id      string
	project string
	token   string // of the link to guestd
	user    string // whose desktop it is in the guest
	log     *slog.Logger
	done    chan struct{} // closed when the actor has ended

	deleteOnce sync.Once
	deleting   chan struct{} // closed when somebody wants it gone

	save sync.Mutex // orders writes to the store

	mu         sync.Mutex
	view       api.Desktop   // guarded by mu
	machine    vm.Machine    // guarded by mu; nil when there is none
	live       *live.Desktop // guarded by mu; nil when there is none
	opened     *openParts    // guarded by mu; what keeps live going
	destroyErr error         // guarded by mu; of the last attempt to remove it
	attempts   int           // guarded by mu; attempts to remove it
	changed    chan struct{} // guarded by mu; closed and replaced at each change
}

func (h *Host) newDesktop(row store.Desktop) *desktop {
	return &desktop{
		host: h, id: row.ID, project: row.Project, token: row.LinkToken, user: row.GuestUser, view: row.Desktop,
		log:      h.cfg.Logger.With("desktop", row.ID),
		done:     make(chan struct{}),
		deleting: make(chan struct{}),
		changed:  make(chan struct{}),
	}
}

// snapshot is a copy that shares nothing which changes.
func (d *desktop) snapshot() api.Desktop {
	v, _ := d.watch()
	return v
}

// watch is snapshot, with a channel that is closed at the next change.
func (d *desktop) watch() (api.Desktop, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return clone(d.view), d.changed
}

func clone(v api.Desktop) api.Desktop {
	v.Labels, v.Env, v.Stages = maps.Clone(v.Labels), maps.Clone(v.Env), slices.Clone(v.Stages)
	return v
}

// update changes the view, writes it to the store and wakes who waits. A view
// that could not be written is still shown: the machine is as it is.
func (d *desktop) update(ctx context.Context, change func(*api.Desktop)) {
	d.save.Lock()
	defer d.save.Unlock()
	d.mu.Lock()
	change(&d.view)
	v := clone(d.view)
	d.wake()
	d.mu.Unlock()
	// What is so is written down, whoever stops waiting for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	if err := d.host.store.Update(ctx, v); err != nil {
		d.log.Error("journal of a desktop not written", "err", err)
	}
}

// storeLimit bounds one write to the store.
const storeLimit = 10 * time.Second

// wake tells who waits that something changed. d.mu is held.
func (d *desktop) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// setState changes the state; nothing leaves deleting.
func (d *desktop) setState(ctx context.Context, s api.DesktopState, failure *api.Error) {
	d.update(ctx, func(v *api.Desktop) {
		if v.State == api.StateDeleting {
			return
		}
		v.State, v.Failure = s, failure
	})
}

// reached notes a stage.
func (d *desktop) reached(ctx context.Context, stage api.Stage) {
	now := d.host.cfg.Now().UTC()
	var took time.Duration
	d.update(ctx, func(v *api.Desktop) {
		before := v.Started
		if n := len(v.Stages); n > 0 {
			before = v.Stages[n-1].Reached
		}
		took = now.Sub(before)
		v.Stages = append(v.Stages, api.StageTime{Stage: stage, Reached: now, TookMS: took.Milliseconds()})
		if stage == api.StageDrawn && v.State == api.StateStarting {
			v.State, v.Failure = api.StateReady, nil
		}
	})
	d.host.metrics.Stage(string(stage), took)
	d.publish(event.TypeStage, map[string]any{"stage": string(stage), "took_ms": took.Milliseconds()})
	d.log.Info("stage reached", "stage", stage, "took", took)
}

func (d *desktop) publish(typ string, data map[string]any) {
	d.host.events.Publish(d.project, typ, d.id, data)
}

// requestDelete asks the actor to remove the desktop and answers at once.
func (d *desktop) requestDelete(ctx context.Context) {
	d.deleteOnce.Do(func() {
		d.update(ctx, func(v *api.Desktop) { v.State = api.StateDeleting })
		close(d.deleting)
	})
}

// parts are the live parts, as far as the desktop has them.
func (d *desktop) parts() (*live.Desktop, vm.Machine, api.Desktop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.live, d.machine, clone(d.view)
}
