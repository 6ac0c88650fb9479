package qemu

import (
	"context"
	"errors"

	"github.com/deskfork/deskfork/pkg/vm/qemu/flatten"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/seal"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// flattening is a chain being shortened beside everything else.
type flattening struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// shorten begins to flatten the disks when they stand on too many overlays. For
// the holder of the machine's turn; the next one stops it first.
func (m *Machine) shorten(mon *qmp.Client) {
	j := m.facts()
	// Views add to the workspace alone, and are whole after it was flattened.
	if max(len(j.System), len(j.Workspace)/4) <= m.p.cfg.MaxOverlays {
		return
	}
	ctx, cancel := context.WithCancel(m.p.life)
	f := &flattening{cancel: cancel, done: make(chan struct{})}
	if !m.p.beside(func() {
		defer close(f.done)
		defer cancel()
		err := m.flatten(ctx, mon, j)
		switch {
		case err == nil:
			m.log.Info("disks flattened", "overlays", len(j.System))
		case !errors.Is(err, context.Canceled) && !m.ended():
			m.log.Warn("disks not flattened; tried again with the next snapshot", "error", err)
		}
	}) {
		cancel()
		return
	}
	m.flat = f
}

// unshorten ends flattening, which goes on with a later snapshot.
func (m *Machine) unshorten(ctx context.Context, mon *qmp.Client) error {
	m.settleFlattening()
	return flatten.Stop(ctx, mon) // an earlier daemon's
}

// settleFlattening ends ours. For the holder of the machine's turn.
func (m *Machine) settleFlattening() {
	if m.flat != nil {
		m.flat.cancel()
		<-m.flat.done
		m.flat = nil
	}
}

func (m *Machine) flatten(ctx context.Context, mon *qmp.Client, j incarnation.Journal) error {
	disks, err := live.Disks(ctx, mon, seal.Disks()...)
	if err != nil {
		return err
	}
	if err := flatten.Run(ctx, mon, disks, []string{j.Base.Path, ""}); err != nil {
		return err
	}
	if err := m.record(func(j *incarnation.Journal) { j.System, j.Workspace = nil, nil }); err != nil {
		return err
	}
	m.p.cfg.Trace("flatten/journal")
	return errors.Join(seal.DropFrozen(m.lay.Dir, disks), m.p.collect())
}
