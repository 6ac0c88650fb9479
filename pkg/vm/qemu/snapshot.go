package qemu

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/qcow2"
	"github.com/deskfork/deskfork/pkg/vm/qemu/seal"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
	"github.com/deskfork/deskfork/pkg/vm/qemu/view"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

var (
	_ vm.Snapshotter = (*Provider)(nil)
	_ vm.Pauser      = (*Machine)(nil)
	_ vm.Viewer      = (*Provider)(nil)
	_ vm.Filler      = (*Provider)(nil)
)

// Snapshot implements vm.Snapshotter.
func (p *Provider) Snapshot(ctx context.Context, machine vm.Machine, spec vm.SnapshotSpec) (vm.Sealed, error) {
	if err := spec.ID.Validate(); err != nil {
		return vm.Sealed{}, &vm.StageError{Stage: "validate", Err: err}
	}
	m, err := p.holder(machine)
	if err != nil {
		return vm.Sealed{}, err
	}
	sealed, err := m.seal(ctx, spec)
	if err != nil {
		err = errors.Join(err, p.collect())
	}
	return sealed, err
}

// holder finds our own machine behind one that may be wrapped.
func (p *Provider) holder(machine vm.Machine) (*Machine, error) {
	inc := machine.Info().Incarnation
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.machines[inc]; m != nil {
		return m, nil
	}
	return nil, &vm.StageError{Stage: "validate", Err: fmt.Errorf("incarnation %s: %w", inc, vm.ErrGone)}
}

// Snapshots implements vm.Snapshotter.
func (p *Provider) Snapshots(context.Context) ([]vm.Snapshot, error) {
	metas, err := p.store.List()
	out := make([]vm.Snapshot, 0, len(metas))
	for _, m := range metas {
		out = append(out, m.Snapshot)
	}
	return out, err
}

// RemoveSnapshot implements vm.Snapshotter.
func (p *Provider) RemoveSnapshot(_ context.Context, id vm.SnapshotID) error {
	if err := p.own(); err != nil {
		return err
	}
	if err := p.store.Remove(id); err != nil {
		return err
	}
	return p.collect()
}

// collect removes from the store what nothing needs. Journals on disk are asked,
// not the table of machines, so that nothing is missed.
func (p *Provider) collect() error {
	return p.store.Collect(p.root.Stands)
}

// seal takes a snapshot of the machine.
func (m *Machine) seal(ctx context.Context, spec vm.SnapshotSpec) (vm.Sealed, error) {
	mon, done, err := m.movable(ctx)
	if err != nil {
		return vm.Sealed{}, err
	}
	defer done()
	j := m.facts()
	m.hush(true)
	defer m.hush(false)
	if j.Boot, err = live.Unread(ctx, mon, argv.SystemID, j.Boot); err != nil {
		return vm.Sealed{}, &vm.StageError{Stage: "survey", Err: err}
	}
	sealed, err := seal.Run(ctx, m.p.store, m.sealable(mon, j), store.Meta{
		Base: j.Base, Boot: j.Boot,
		Snapshot: vm.Snapshot{
			ID: spec.ID, Host: j.HostClass(Name), Shape: j.Shape, Network: j.Network, Width: j.Width, Height: j.Height,
			Created: time.Now().UTC(), Kept: spec.Keep,
		},
	})
	if err != nil {
		return vm.Sealed{}, err
	}
	m.shorten(mon) //nolint:contextcheck // goes on under the provider's life
	m.log.Info("machine sealed", "snapshot", spec.ID, "pause", sealed.Pause, "memory", sealed.MemoryBytes, "slow", sealed.Slow)
	return sealed, nil
}

// movable is control of a machine whose disks stand still where they are.
func (m *Machine) movable(ctx context.Context) (mon *qmp.Client, done func(), err error) {
	stage := "monitor"
	if mon, done, err = m.control(ctx); err == nil {
		if stage = "flatten"; m.facts().Version < incarnation.Version {
			stage, err = "host-class", fmt.Errorf("%w: the machine was started by an older version", vm.ErrHostClass)
		} else {
			err = m.unshorten(ctx, mon)
		}
		if err != nil {
			done()
		}
	}
	if err != nil {
		return nil, nil, &vm.StageError{Stage: stage, Err: err}
	}
	return mon, done, nil
}

// sealable describes the machine for seal.
func (m *Machine) sealable(mon *qmp.Client, j incarnation.Journal) seal.Machine {
	ram := m.lay.File(incarnation.RAM)
	if j.Template != "" {
		ram = m.p.store.File(j.Template)
	}
	return seal.Machine{
		Mon: mon, PID: m.proc.Identity().PID, Dir: m.lay.Dir, RAM: ram,
		Template: j.Template, System: j.System, Workspace: j.Workspace,
		Give: m.p.root.Give, Take: m.p.root.Take,
		Began: func(mark seal.Mark) error { return m.record(func(j *incarnation.Journal) { j.Sealing = &mark }) },
		Moved: func(mark seal.Mark) error { return m.record(func(j *incarnation.Journal) { j.Moved(mark) }) },
		Trace: func(step string) { m.p.cfg.Trace("snapshot/" + step) },
	}
}

// View implements vm.Viewer.
func (p *Provider) View(ctx context.Context, machine vm.Machine, spec vm.ViewSpec) (*vm.View, error) {
	m, err := p.holder(machine)
	if err != nil {
		return nil, err
	}
	mon, done, err := m.movable(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := seal.Freeze(ctx, p.store, m.sealable(mon, m.facts()), spec.Point); err != nil {
		return nil, errors.Join(err, p.collect())
	}
	defer m.shorten(mon) //nolint:contextcheck // goes on under the provider's life
	return view.Open(ctx, p.store, m.facts().Workspace, spec.Since)
}

// settle ends a seal that an earlier daemon was cut off in: the journal is set
// right and the machine goes on unless a caller paused it.
func (m *Machine) settle(ctx context.Context, mon *qmp.Client) error {
	j := m.facts()
	if j.Sealing == nil {
		return nil
	}
	mark, err := seal.Settle(ctx, mon, m.lay.Dir, *j.Sealing, !j.Paused)
	if mark != nil {
		err = errors.Join(err, m.record(func(j *incarnation.Journal) { j.Moved(*mark) }))
	}
	m.log.Info("cut-off snapshot settled", "snapshot", j.Sealing.Snapshot, "error", err)
	return err
}

// NewDisk implements vm.Filler.
func (p *Provider) NewDisk(path string, bytes int64, holds []vm.Extent) (vm.DiskWriter, error) {
	return qcow2.Make(path, bytes, holds)
}
