package qemu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/revive"
	"github.com/deskfork/deskfork/pkg/vm/qemu/spawn"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// source is what a clone is made from.
type source struct {
	meta   store.Meta
	fresh  bool // the workspace is a disk of its own
	paused bool
}

// Clone implements vm.Snapshotter.
func (p *Provider) Clone(ctx context.Context, spec vm.CloneSpec) (vm.Machine, error) {
	w, err := p.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	return w.Start(ctx)
}

// Prepare implements vm.Snapshotter.
func (p *Provider) Prepare(ctx context.Context, spec vm.CloneSpec) (vm.Prepared, error) {
	meta, release, err := p.store.Pin(spec.Snapshot)
	if err != nil {
		return nil, &vm.StageError{Stage: "snapshot", Err: err}
	}
	w, err := p.prepare(ctx, spec, meta)
	if err != nil {
		release()
		return nil, err
	}
	w.release = release
	return w, nil
}

func (p *Provider) prepare(ctx context.Context, spec vm.CloneSpec, meta store.Meta) (*prepared, error) {
	s := meta.Snapshot
	full := vm.Spec{
		ID: spec.ID, Incarnation: spec.Incarnation, Shape: s.Shape, Width: s.Width, Height: s.Height,
		Network: spec.Network, GuestConfig: spec.GuestConfig, Workspace: spec.Workspace, Boot: meta.Boot,
		System: vm.Disk{Base: p.store.File(meta.Own(store.System)), BaseFormat: "qcow2", SizeMiB: s.SystemMiB},
	}
	fresh := spec.Workspace.SizeMiB != 0
	if !fresh {
		full.Workspace = vm.Disk{Base: p.store.File(meta.Own(store.Workspace)), BaseFormat: "qcow2", SizeMiB: s.WorkspaceMiB}
	}
	c, err := p.begin(ctx, full)
	if err != nil {
		return nil, err
	}
	c.from = &source{meta: meta, fresh: fresh, paused: spec.Paused}
	c.j.Base, c.j.Snapshot, c.j.Needs, c.j.Paused = meta.Base, s.ID, meta.Needs(), spec.Paused
	w := &prepared{c: c}
	before := []stage{{"host-class", w.fits}, {"verify", func(ctx context.Context) error { return p.store.Verify(ctx, meta) }}}
	stages := append(append(before, c.process()...), stage{"template", func(ctx context.Context) error { return w.revive().Template(ctx) }})
	if err := c.run(ctx, "clone/", stages); err != nil {
		c.abandon(ctx)
		return nil, err
	}
	return w, nil
}

// prepared implements vm.Prepared.
type prepared struct {
	c       *creation
	release func() // of the snapshot's pin

	mu   sync.Mutex // held while starting or discarding
	used bool
}

func (w *prepared) fits(context.Context) error {
	have, want := w.c.j.HostClass(Name), w.c.from.meta.Snapshot.Host
	if have != want {
		return fmt.Errorf("%w: it was sealed on %+v, this is %+v", vm.ErrHostClass, want, have)
	}
	return nil
}

func (w *prepared) revive() revive.Machine {
	c := w.c
	return revive.Machine{
		Mon: c.mon, PID: c.proc.Identity().PID, RAM: c.lay.File(incarnation.RAM), Log: c.lay.File(incarnation.QEMULog),
		Store: c.p.store, Meta: c.from.meta,
	}
}

var errUsed = fmt.Errorf("%w: it was started or discarded before", vm.ErrInvalid)

// Start implements vm.Prepared.
func (w *prepared) Start(ctx context.Context) (vm.Machine, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used {
		return nil, &vm.StageError{Stage: "start", Err: errUsed}
	}
	w.used = true
	defer w.release()
	c, r := w.c, w.revive()
	stages := []stage{{"pages", r.Pages}, {"load", w.load}, {"screen", r.Screen}}
	if c.from.fresh && c.spec.Workspace.SizeMiB<<20 != c.from.meta.WorkspaceBytes {
		stages = append(stages, stage{"workspace", r.Workspace}) // else the guest knows its size
	}
	sound := func(context.Context) error { return r.Sound() }
	stages = append(stages, stage{"sound", sound})
	if !c.from.paused {
		stages = append(stages, stage{"resume", func(ctx context.Context) error { return live.Cont(ctx, c.mon) }}, stage{"awake", sound})
	}
	stages = append(stages, stage{"running", w.running})
	return c.finish(ctx, c.run(ctx, "clone/", stages))
}

// load tells of a QEMU that ended by its own words.
func (w *prepared) load(ctx context.Context) error {
	err := w.revive().Load(ctx)
	if !errors.Is(err, qmp.ErrClosed) {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if w.c.proc.Wait(wait) != nil {
		return err
	}
	return fmt.Errorf("%w: %w", vm.ErrUnsound, spawn.ExitError("load", w.c.cmd, w.c.lay.File(incarnation.QEMULog), w.c.cmd.Wait()))
}

// running journals what the machine stands on from now on.
func (w *prepared) running(ctx context.Context) error {
	j, meta := &w.c.j, w.c.from.meta
	j.Template, j.System = meta.Template(), meta.System
	if !w.c.from.fresh {
		j.Workspace = meta.Workspace
	}
	return w.c.journalRunning(ctx)
}

// Discard implements vm.Prepared.
func (w *prepared) Discard(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.used {
		return nil
	}
	if err := w.c.undo.Run(ctx, removeTimeout); err != nil {
		return fmt.Errorf("discard a prepared machine: %w: %w", vm.ErrLeftover, err)
	}
	w.used = true
	w.c.p.forget(w.c.lay.Inc)
	w.release()
	return w.c.p.collect()
}
