// Package desk is one desktop: what is known of it, the machine that it has, and
// the actor that begins, watches, replaces and removes that.
package desk

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/activity"
	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/metric"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// errDeleted is why the start of a desktop ends when it is deleted.
var errDeleted = errors.New("the desktop is being deleted")

// Env is what the desktops of a host share. All members are required.
type Env struct {
	Provider vm.Provider
	Store    *store.Store
	Events   *event.Log
	Metrics  *metric.Set
	Open     reach.Opener
	Cold     boot.Limits // of a machine that boots
	Clone    boot.Limits // of one that was drawn already
	UUIDs    *boot.UUIDs // that guests drew
	// Starts holds a token for each clone that may start at a time: more of them
	// would only make each other late.
	Starts  chan struct{}
	Version string
	Logger  *slog.Logger
	Now     func() time.Time
	// Reserve admits what shall start, or says that there is no capacity.
	Reserve func(admission.Need) (release func(), err error)
	// Usage counts what machines use.
	Usage Usage
	// Attach is told of a machine that has a restored workspace, before its guest
	// sees that.
	Attach func(ctx context.Context, m vm.Machine, at store.Attachment)
	// Gone is told when nothing is left of a desktop.
	Gone func(id string)
}

// Desktop is one desktop and its actor. Safe for concurrent use.
type Desktop struct {
	ID      string
	Project string
	// Meter knows whether somebody uses it.
	Meter *activity.Meter

	env  *Env
	log  *slog.Logger
	done chan struct{} // closed when the actor has ended
	ops  chan op
	hold chan struct{} // holds a token for who seals, stops or replaces the machine

	deleteOnce sync.Once
	deleting   chan struct{} // closed when somebody wants it gone

	save sync.Mutex // orders writes to the store

	mu         sync.Mutex
	row        store.Desktop     // guarded by mu
	machine    vm.Machine        // guarded by mu; nil when there is none
	parts      *reach.Parts      // guarded by mu; nil when nobody may use the machine
	tracked    *live.Desktop     // guarded by mu; of parts, for callers
	note       string            // guarded by mu; what the start waits for
	again      *again            // guarded by mu; while an adopted machine is taken up
	destroyErr error             // guarded by mu; of the last attempt to remove it
	attempts   int               // guarded by mu; attempts to remove it
	changed    chan struct{}     // guarded by mu; closed and replaced at each change
	followed   map[run]following // guarded by mu; the events of programs
}

// New makes a desktop of what is known of it, and of the machine that an earlier
// run of the host has left it (nil: none). It does nothing before Run.
func New(env *Env, row store.Desktop, m vm.Machine) *Desktop {
	d := &Desktop{
		ID: row.ID, Project: row.Project, Meter: activity.New(env.Now), env: env, row: row, machine: m,
		log:      env.Logger.With("desktop", row.ID),
		done:     make(chan struct{}),
		ops:      make(chan op),
		hold:     make(chan struct{}, 1),
		deleting: make(chan struct{}),
		changed:  make(chan struct{}),
	}
	if m != nil {
		d.adopt(m)
	}
	d.hold <- struct{}{}
	return d
}

// View is a copy of what the API shows; it shares nothing that changes.
func (d *Desktop) View() api.Desktop {
	v, _, _ := d.watch()
	return v
}

// watch is View, with what the start waits for, and a channel that is closed at
// the next change.
func (d *Desktop) watch() (api.Desktop, string, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.view(), d.note, d.changed
}

// view is what the API shows. d.mu is held.
func (d *Desktop) view() api.Desktop {
	v := clone(d.row.Desktop)
	v.Waiting = d.note
	return v
}

// Row is a copy of all that is kept of the desktop.
func (d *Desktop) Row() store.Desktop {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cloneRow(d.row)
}

func cloneRow(r store.Desktop) store.Desktop {
	r.Desktop = clone(r.Desktop)
	return r
}

func clone(v api.Desktop) api.Desktop {
	v.Labels, v.Env, v.Stages = maps.Clone(v.Labels), maps.Clone(v.Env), slices.Clone(v.Stages)
	return v
}

// Update changes what is known, writes it to the store and wakes who waits. What
// could not be written is still shown: the machine is as it is.
func (d *Desktop) Update(ctx context.Context, change func(*store.Desktop)) {
	err := d.change(ctx, change, d.env.Store.Update)
	if err != nil {
		d.log.Error("journal of a desktop not written", "err", err)
	}
}

// change is Update with another way to write.
func (d *Desktop) change(ctx context.Context, change func(*store.Desktop), write func(context.Context, store.Desktop) error) error {
	d.save.Lock()
	defer d.save.Unlock()
	d.mu.Lock()
	change(&d.row)
	r := cloneRow(d.row)
	d.wake()
	taken := d.again != nil
	d.mu.Unlock()
	if taken && r.State == api.StateStarting {
		return nil // until it is over the journal tells of what was before
	}
	// What is so is written down, whoever stops waiting for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	return write(ctx, r)
}

// commit changes what is known once it is written, or not at all.
func (d *Desktop) commit(ctx context.Context, change func(*store.Desktop), write func(context.Context, store.Desktop) error) error {
	d.save.Lock()
	defer d.save.Unlock()
	r := d.Row()
	change(&r)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	if err := write(ctx, r); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.row.State == api.StateDeleting {
		r.State = api.StateDeleting
	}
	d.row = r
	d.wake()
	return nil
}

// storeLimit bounds one write to the store.
const storeLimit = 10 * time.Second

// wake tells who waits that something changed. d.mu is held.
func (d *Desktop) wake() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// setState changes the state; nothing leaves deleting.
func (d *Desktop) setState(ctx context.Context, s api.DesktopState, failure *api.Error) {
	d.Update(ctx, func(v *store.Desktop) {
		if v.State == api.StateDeleting {
			return
		}
		v.State, v.Failure = s, failure
	})
}

// reached notes a stage.
func (d *Desktop) reached(ctx context.Context, stage api.Stage) {
	now := d.env.Now().UTC()
	var took time.Duration
	d.Update(ctx, func(v *store.Desktop) {
		v.Stages, took = addStage(v.Stages, v.Started, stage, now)
		if stage == api.StageDrawn && v.State == api.StateStarting {
			v.State, v.Failure, v.Source = api.StateReady, nil, nil
		}
		d.env.Metrics.Stage(string(stage), took) // who has seen the stage sees it counted
	})
	d.Publish(event.TypeStage, map[string]any{"stage": string(stage), "took_ms": took.Milliseconds()})
	d.log.Info("stage reached", "stage", stage, "took", took)
}

func addStage(list []api.StageTime, started time.Time, stage api.Stage, now time.Time) ([]api.StageTime, time.Duration) {
	before := started
	if n := len(list); n > 0 {
		before = list[n-1].Reached
	}
	took := now.Sub(before)
	return append(list, api.StageTime{Stage: stage, Reached: now, TookMS: took.Milliseconds()}), took
}

// Publish tells of something that happened to the desktop.
func (d *Desktop) Publish(typ string, data map[string]any) {
	d.env.Events.Publish(d.Project, typ, d.ID, data)
}

// Note says what the start waits for before its next stage.
func (d *Desktop) Note(text string) {
	d.mu.Lock()
	changed := d.note != text
	d.note = text
	stages := d.row.Stages
	d.mu.Unlock()
	if changed && text != "" {
		d.Publish(event.TypeWaiting, map[string]any{"stage": string(NextStage(stages)), "for": text})
	}
}

// Parts are the live parts and the machine, as far as the desktop has them.
func (d *Desktop) Parts() (*live.Desktop, vm.Machine, api.Desktop) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tracked, d.machine, d.view()
}

// NextStage is the stage after the last one reached.
func NextStage(reached []api.StageTime) api.Stage {
	order := stages()
	return order[min(len(reached), len(order)-1)]
}

func stages() []api.Stage {
	return []api.Stage{
		api.StageAdmission, api.StageMachine, api.StageLink, api.StageHandshake, api.StageSession, api.StageDrawn,
	}
}
