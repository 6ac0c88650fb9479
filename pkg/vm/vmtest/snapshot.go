package vmtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"maps"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
)

// sealed is one snapshot. Nothing of it changes but damaged.
type sealed struct {
	vm.Snapshot

	spec    vm.Spec
	of      *Machine // whose instant it is; nil after an import
	screen  *image.RGBA
	disk    *diskState
	damaged bool // guarded by the provider's mu
}

var (
	_ vm.Snapshotter = (*Provider)(nil)
	_ vm.Prepared    = (*prepared)(nil)
	_ vm.Keeper      = (*Provider)(nil)
)

// SetHostClass makes this another kind of host from now on.
func (p *Provider) SetHostClass(c vm.HostClass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.class = c
}

// Damage makes every later clone of a snapshot fail with ErrCorrupt.
func (p *Provider) Damage(id vm.SnapshotID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.snapshots[id]; s != nil {
		s.damaged = true
	}
}

// wrapped is a machine of a test that is one of this provider's inside.
type wrapped interface{ Fake() *Machine }

// Fake is the machine itself, also through what embeds it.
func (m *Machine) Fake() *Machine { return m }

// Snapshot implements vm.Snapshotter.
func (p *Provider) Snapshot(ctx context.Context, machine vm.Machine, spec vm.SnapshotSpec) (vm.Sealed, error) {
	fail := func(err error) (vm.Sealed, error) {
		return vm.Sealed{}, &vm.StageError{Stage: "snapshot", Err: err}
	}
	w, ok := machine.(wrapped)
	if !ok || w.Fake().p != p {
		return fail(fmt.Errorf("%w: a machine of another provider", vm.ErrInvalid))
	}
	m := w.Fake()
	if err := spec.ID.Validate(); err != nil {
		return fail(err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if p.cfg.Snapshot != nil {
		if err := p.cfg.Snapshot(ctx, m, spec); err != nil {
			return fail(err)
		}
	}
	if m.ended() {
		return fail(vm.ErrGone)
	}
	s := p.seal(m, spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.snapshots[s.ID] != nil {
		return fail(fmt.Errorf("snapshot %s: %w", s.ID, vm.ErrExists))
	}
	s.Host = p.class
	p.snapshots[s.ID] = s
	return vm.Sealed{Snapshot: s.Snapshot, Pause: time.Millisecond}, nil
}

func (p *Provider) seal(m *Machine, spec vm.SnapshotSpec) *sealed {
	_, _ = m.disk.mark(spec.ID) // a point that is there already will be said by who lists snapshots
	s := &sealed{spec: m.spec, of: m, screen: m.screen.Still(), disk: m.disk.clone(), Snapshot: vm.Snapshot{
		ID: spec.ID, Template: spec.ID, Shape: m.spec.Shape, Network: m.spec.Network,
		Width: m.spec.Width, Height: m.spec.Height, SystemMiB: m.spec.System.SizeMiB, WorkspaceMiB: m.spec.Workspace.SizeMiB,
		Created: time.Now().UTC(), MemoryBytes: 1 << 20, StateBytes: 1 << 16, DiskBytes: 1 << 16, Kept: spec.Keep,
	}}
	if m.origin != nil {
		s.Template = m.origin.Template
	}
	if spec.Keep {
		s.Digest = digest(s.screen)
	}
	return s
}

func digest(img *image.RGBA) string {
	sum := sha256.Sum256(img.Pix)
	return hex.EncodeToString(sum[:])
}

// Clone implements vm.Snapshotter.
func (p *Provider) Clone(ctx context.Context, spec vm.CloneSpec) (vm.Machine, error) {
	w, err := p.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	m, err := w.Start(ctx)
	if err != nil {
		_ = w.Discard(ctx) // never fails here
	}
	return m, err
}

// Prepare implements vm.Snapshotter.
func (p *Provider) Prepare(ctx context.Context, spec vm.CloneSpec) (vm.Prepared, error) {
	fail := func(err error) (vm.Prepared, error) {
		return nil, &vm.StageError{Stage: "prepare", Err: err}
	}
	for _, err := range []error{spec.ID.Validate(), spec.Incarnation.Validate(), spec.Snapshot.Validate(), ctx.Err()} {
		if err != nil {
			return fail(err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.snapshots[spec.Snapshot]
	switch {
	case p.machines[spec.Incarnation] != nil:
		return fail(fmt.Errorf("incarnation %s: %w", spec.Incarnation, vm.ErrExists))
	case s == nil:
		return fail(fmt.Errorf("snapshot %s: %w", spec.Snapshot, vm.ErrNotFound))
	case s.damaged:
		return fail(fmt.Errorf("snapshot %s: %w", spec.Snapshot, vm.ErrCorrupt))
	case s.Host != p.class:
		return fail(fmt.Errorf("snapshot %s: %w: sealed on %v, this is %v", spec.Snapshot, vm.ErrHostClass, s.Host, p.class))
	}
	return &prepared{p: p, spec: spec, s: s}, nil
}

// prepared stands for a process that waits.
type prepared struct {
	p    *Provider
	spec vm.CloneSpec
	s    *sealed

	mu   sync.Mutex
	used bool
}

// Start implements vm.Prepared.
func (w *prepared) Start(ctx context.Context) (vm.Machine, error) {
	fail := func(err error) (vm.Machine, error) { return nil, &vm.StageError{Stage: "load", Err: err} }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	w.mu.Lock()
	used := w.used
	w.used = true
	w.mu.Unlock()
	if used {
		return fail(fmt.Errorf("start twice: %w", vm.ErrInvalid))
	}
	if fn := w.p.cfg.Clone; fn != nil {
		if err := fn(ctx, w.spec); err != nil {
			return fail(err)
		}
	}
	spec, d := w.s.spec, w.s.disk
	spec.ID, spec.Incarnation = w.spec.ID, w.spec.Incarnation
	spec.Network, spec.GuestConfig = w.spec.Network, w.spec.GuestConfig
	if w.spec.Workspace.SizeMiB != 0 {
		spec.Workspace = w.spec.Workspace
		fresh, err := newDisk(spec.Workspace)
		if err != nil {
			return fail(err)
		}
		d = fresh
	}
	state := vm.StateRunning
	if w.spec.Paused {
		state = vm.StatePaused
	}
	m, err := w.p.add(spec, state, w.s, d.clone())
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Discard implements vm.Prepared.
func (w *prepared) Discard(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = true
	return nil
}

// Snapshots implements vm.Snapshotter.
func (p *Provider) Snapshots(context.Context) ([]vm.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]vm.Snapshot, 0, len(p.snapshots))
	for _, s := range p.snapshots {
		list = append(list, s.Snapshot)
	}
	return list, nil
}

// Kept implements vm.Keeper: what is listed, and what a machine was cloned from.
func (p *Provider) Kept(context.Context) ([]vm.Kept, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	on := map[vm.SnapshotID]*sealed{}
	for _, m := range p.machines {
		if m.origin != nil {
			on[m.origin.ID] = m.origin
		}
	}
	maps.Copy(on, p.snapshots)
	var all []vm.Kept
	for id, s := range on {
		all = append(all, vm.Kept{
			Snapshot: id, Listed: p.snapshots[id] != nil, MemoryBytes: s.MemoryBytes + s.StateBytes, DiskBytes: s.DiskBytes,
		})
	}
	return all, nil
}

// RemoveSnapshot implements vm.Snapshotter.
func (p *Provider) RemoveSnapshot(_ context.Context, id vm.SnapshotID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.snapshots, id)
	return nil
}
