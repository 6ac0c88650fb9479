// Package recording keeps what is seen on desktops as files that can be played: the
// pictures that the stream's viewers get, with a chapter for what agents and people do.
package recording

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// Limits say how much is kept. What is zero has its default.
type Limits struct {
	Age   time.Duration // since its end; default 7 days
	Bytes int64         // of all recordings; default 10 GiB
	// Part is after how many bytes a recording goes on in another file, so that the
	// older part can go. Default 2 GiB, and at most a quarter of Bytes.
	Part int64
	// Spare is how much of the disk stays free, in bytes. Default 256 MiB.
	Spare int64
}

func (l *Limits) setDefaults() {
	l.Age, l.Bytes = cmp.Or(l.Age, 7*24*time.Hour), cmp.Or(l.Bytes, 10<<30)
	l.Part = min(cmp.Or(l.Part, 2<<30), max(l.Bytes/4, 1))
	l.Spare = cmp.Or(l.Spare, 256<<20)
}

// Events are those of one desktop, as they happen.
type Events interface {
	Next(ctx context.Context) (api.Event, error)
}

// Log keeps what happened. See store.Audits.
type Log interface {
	AddAudit(ctx context.Context, a store.Audit) error
}

// Config is what a desk is made of. All members but Limits are required.
type Config struct {
	// Dir is where recordings lie; it is made.
	Dir    string
	Limits Limits
	// Use finds the live parts of a desktop, and Find describes one.
	Use  func(ctx context.Context, project, ref string) (*live.Desktop, api.Desktop, error)
	Find func(ctx context.Context, project, ref string) (api.Desktop, error)
	// Follow begins to hear the events of a desktop, by its id.
	Follow  func(desktop string) Events
	Publish func(project, typ, desktop string, data map[string]any)
	Log     Log
	// Go runs something until its context ends, when the host stops.
	Go func(func(context.Context)) bool
	// Usage is what the host has left.
	Usage  func() (admission.Usage, error)
	Now    func() time.Time
	Logger *slog.Logger
}

// Desk records desktops. Safe for concurrent use.
type Desk struct {
	cfg Config

	mu     sync.Mutex
	kept   map[string]*row      // guarded by mu; by recording
	active map[string]*recorder // guarded by mu; by desktop; nil: one begins
}

// row is a recording, as its file says.
type row struct {
	api.Recording

	Project string `json:"project"`
}

// Open finds the recordings of an earlier run, and finishes what that left.
func Open(cfg Config) (*Desk, error) {
	cfg.Limits.setDefaults()
	d := &Desk{cfg: cfg, kept: map[string]*row{}, active: map[string]*recorder{}}
	return d, d.load()
}

// Run removes what is too old until ctx ends.
func (d *Desk) Run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		d.sweep(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Start begins to record a desktop. It returns once the first picture is written.
func (d *Desk) Start(ctx context.Context, project, ref string, who control.Holder) (api.Recording, error) {
	l, v, err := d.cfg.Use(ctx, project, ref)
	if err != nil {
		return api.Recording{}, err
	}
	if l.Display.Stream == nil {
		return api.Recording{}, api.Errorf(api.CodeUnsupported, "desktop %s has no screen that could be recorded", v.Name)
	}
	if !d.claim(v.ID) {
		e := api.Errorf(api.CodeConflict, "desktop %s is recorded already", v.Name)
		e.Hint = "stop that recording first"
		return api.Recording{}, e
	}
	r, err := d.begin(ctx, l.Display.Stream, row{Project: v.Project, Recording: api.Recording{
		Desktop: v.ID, Name: v.Name, Incarnation: v.Incarnation, By: who.Name, Chapters: []api.Chapter{},
	}}, who)
	if err != nil {
		d.release(v.ID)
		return api.Recording{}, err
	}
	d.mu.Lock()
	d.active[v.ID] = r
	d.mu.Unlock()
	got := r.now()
	if !d.cfg.Go(r.run) {
		r.close(ctx, reasonHost)
		d.release(v.ID)
		return api.Recording{}, api.Errorf(api.CodeGuestUnavail, "the host is stopping")
	}
	return got, nil
}

// claim says that a desktop is recorded; false: it is already.
func (d *Desk) claim(desktop string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, taken := d.active[desktop]; taken {
		return false
	}
	d.active[desktop] = nil
	return true
}

func (d *Desk) release(desktop string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.active, desktop)
}

// Stop ends the recording of a desktop, and describes it when its file is finished.
func (d *Desk) Stop(ctx context.Context, project, ref string) (api.Recording, error) {
	v, err := d.cfg.Find(ctx, project, ref)
	if err != nil {
		return api.Recording{}, err
	}
	d.mu.Lock()
	r := d.active[v.ID]
	d.mu.Unlock()
	if r == nil {
		return api.Recording{}, api.Errorf(api.CodePrecondition, "desktop %s is not recorded", v.Name)
	}
	r.stop()
	select {
	case <-r.over:
		return r.now(), nil
	case <-ctx.Done():
		return api.Recording{}, ctx.Err()
	}
}

// List describes the recordings of a desktop, newest first. One that is deleted is
// known by its id, while there are some.
func (d *Desk) List(ctx context.Context, project, ref string) ([]api.Recording, error) {
	desktop, err := d.desktop(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	list := []api.Recording{}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.kept {
		if r.Desktop == desktop && r.Project == project {
			list = append(list, d.tell(r))
		}
	}
	slices.SortFunc(list, func(a, b api.Recording) int {
		return cmp.Or(b.Begun.Compare(a.Begun), cmp.Compare(b.ID, a.ID))
	})
	return list, nil
}

// tell describes a recording as it is now. d.mu is held.
func (d *Desk) tell(r *row) api.Recording {
	if a := d.active[r.Desktop]; a != nil && r.State == api.RecordingRuns {
		if got := a.now(); got.ID == r.ID {
			return got
		}
	}
	return r.Recording
}

// Read opens the file of a recording, and describes it; while it runs the file grows.
func (d *Desk) Read(ctx context.Context, project, ref, id string) (*os.File, api.Recording, error) {
	got, err := d.one(ctx, project, ref, id)
	if err != nil {
		return nil, got, err
	}
	f, err := os.Open(d.path(id, videoSuffix))
	if errors.Is(err, os.ErrNotExist) {
		err = fault.NotFound("recording", id)
	}
	return f, got, err
}

// one finds a recording of a desktop.
func (d *Desk) one(ctx context.Context, project, ref, id string) (api.Recording, error) {
	desktop, err := d.desktop(ctx, project, ref)
	if err != nil {
		return api.Recording{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := d.kept[id]
	if r == nil || r.Desktop != desktop || r.Project != project {
		return api.Recording{}, fault.NotFound("recording", id)
	}
	return d.tell(r), nil
}

// desktop is the id of a desktop that exists, or of one whose recordings do.
func (d *Desk) desktop(ctx context.Context, project, ref string) (string, error) {
	v, err := d.cfg.Find(ctx, project, ref)
	if err == nil {
		return v.ID, nil
	}
	if !errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.kept {
		if r.Desktop == ref && r.Project == project {
			return ref, nil
		}
	}
	return "", err
}

// Remove deletes a recording that has ended.
func (d *Desk) Remove(ctx context.Context, project, ref, id string, who control.Holder) error {
	got, err := d.one(ctx, project, ref, id)
	if err != nil {
		return err
	}
	if got.State == api.RecordingRuns {
		return api.Errorf(api.CodePrecondition, "recording %s is still running: stop it first", id)
	}
	return d.remove(ctx, id, who, "request")
}

// remove deletes a recording's files, and says so.
func (d *Desk) remove(ctx context.Context, id string, who control.Holder, why string) error {
	d.mu.Lock()
	r := d.kept[id]
	delete(d.kept, id)
	d.mu.Unlock()
	if r == nil {
		return nil // somebody was faster
	}
	err := d.unlink(id)
	d.note(ctx, r, event.TypeRecordingRemoved, who, map[string]any{"reason": why})
	return err
}

// note writes down and publishes what became of a recording.
func (d *Desk) note(ctx context.Context, r *row, what string, who control.Holder, data map[string]any) {
	data["recording"] = r.ID
	detail := r.ID
	if why, ok := data["reason"].(string); ok {
		detail += " " + why
	}
	err := d.cfg.Log.AddAudit(context.WithoutCancel(ctx), store.Audit{Project: r.Project, AuditEntry: api.AuditEntry{
		Time: d.cfg.Now().UTC(), Desktop: r.Desktop, Incarnation: r.Incarnation, What: what,
		Who: who.Name, Kind: string(who.Kind), By: who.By, Detail: detail,
	}})
	if err != nil {
		d.cfg.Logger.Warn("what became of a recording is not written down", "recording", r.ID, "err", err)
	}
	d.cfg.Publish(r.Project, what, r.Desktop, data)
}
