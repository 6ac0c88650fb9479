package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/archive"
	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// recover matches the rows of the store with the machines that still run: a pair
// is adopted, a row alone has failed, a machine alone is destroyed.
func (h *Host) recover(ctx context.Context) error {
	machines, err := h.cfg.Provider.Recover(ctx)
	if errors.Is(err, vm.ErrLeftover) {
		// One machine that cannot be ended must not keep the others from their users.
		h.cfg.Logger.Error("something of a machine is left; the next start tries again", "err", err)
	} else if err != nil {
		return fmt.Errorf("find running machines: %w", err)
	}
	rows, err := h.store.Desktops(ctx)
	if err == nil {
		err = h.Usage.Load(ctx)
	}
	if err != nil {
		return err
	}
	found := make(map[vm.Incarnation]vm.Machine, len(machines))
	for _, m := range machines {
		found[m.Info().Incarnation] = m
	}
	for _, row := range rows {
		inc := vm.Incarnation(row.Incarnation)
		if err := h.adopt(ctx, row, found[inc]); err != nil {
			return err
		}
		delete(found, inc)
	}
	h.destroyStrays(ctx, found)
	h.Usage.Settle()
	return h.recoverSnapshots(ctx, rows)
}

// recoverSnapshots matches the rows of snapshots with what the provider has. What
// has no row goes; a row that has nothing stays, and says so.
func (h *Host) recoverSnapshots(ctx context.Context, desktops []store.Desktop) error {
	s, ok := h.cfg.Provider.(vm.Snapshotter)
	if !ok {
		return nil
	}
	whole, err := s.Snapshots(ctx)
	if err != nil {
		return fmt.Errorf("find snapshots: %w", err)
	}
	rows, err := h.store.Snapshots(ctx)
	if err != nil {
		return err
	}
	asleep := map[string]bool{}
	for _, d := range desktops {
		asleep[d.Asleep] = true
	}
	have := map[vm.SnapshotID]bool{}
	for _, snap := range whole {
		have[snap.ID] = true
	}
	wanted := map[vm.SnapshotID]bool{}
	for _, row := range rows {
		id := vm.SnapshotID(row.ID)
		if wanted[id], err = h.recoverSnapshot(ctx, row, have[id], asleep[row.ID]); err != nil {
			return err
		}
	}
	for _, snap := range whole {
		if wanted[snap.ID] {
			continue
		}
		if err := s.RemoveSnapshot(ctx, snap.ID); err != nil {
			h.cfg.Logger.Error("snapshot that nothing knows not removed", "snapshot", snap.ID, "err", err)
			continue
		}
		h.cfg.Logger.Info("snapshot that nothing knows removed", "snapshot", snap.ID)
	}
	return nil
}

// recoverSnapshot judges a row by whether its files are there, and whether a
// desktop sleeps in it. It answers whether its files are still wanted.
func (h *Host) recoverSnapshot(ctx context.Context, row store.Snapshot, whole, slept bool) (wanted bool, err error) {
	switch {
	case row.Kind == store.KindSuspended && !slept, row.Kind == store.KindBoot && !whole:
		// Its desktop went, or came back, and the run ended before this did; or it
		// is made anew when somebody needs it.
		return false, h.store.BurySnapshot(ctx, row.ID, nil, h.cfg.Now())
	case !whole && row.Fault == "":
		h.cfg.Logger.Error("the files of a snapshot are gone", "snapshot", row.ID, "name", row.Name)
		row.Fault = "its files were gone when the host started"
		return true, h.store.UpdateSnapshot(ctx, row.Snapshot)
	}
	return true, nil
}

// strayLimit is how long the removal of a stray machine may take.
const strayLimit = time.Minute

// destroyStrays destroys machines without a desktop, side by side.
func (h *Host) destroyStrays(ctx context.Context, strays map[vm.Incarnation]vm.Machine) {
	var wait sync.WaitGroup
	for inc, m := range strays {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, strayLimit)
			defer cancel()
			log := h.cfg.Logger.With("incarnation", inc)
			if err := m.Destroy(ctx); err != nil {
				// The provider's journal still has it: the next start tries again.
				log.Error("machine without a desktop not destroyed", "err", err)
				return
			}
			log.Warn("machine without a desktop destroyed")
		})
	}
	wait.Wait()
}

// adopt takes up a desktop of an earlier run; m is nil when its machine is gone.
func (h *Host) adopt(ctx context.Context, row store.Desktop, m vm.Machine) error {
	nothing := func(context.Context) error { return nil }
	if row.State == api.StateStarting && m == nil && row.Origin == api.OriginFork {
		// Half a child is none: its caller was not told that it is ready.
		h.cfg.Logger.Warn("fork that an earlier run had begun removed", "desktop", row.ID)
		return h.store.Bury(ctx, row.ID, h.cfg.Now())
	}
	if row.State == api.StateSuspended && m != nil { // the run ended between its seal and its end
		h.destroyStrays(ctx, map[vm.Incarnation]vm.Machine{m.Info().Incarnation: m})
		m = nil
	}
	if m != nil {
		h.Usage.Adopted(row, m)
	}
	d := desk.New(h.env, row, m)
	switch {
	case row.State == api.StateDeleting, row.Labels[archive.Label] != "":
		d.RequestDelete(ctx)
		return h.spawn(d, nothing) //nolint:contextcheck // an actor lives under the host's own context
	case m != nil:
		return h.spawn(d, func(ctx context.Context) error { return d.TakeUp(ctx, m) }) //nolint:contextcheck // as above
	case row.State == api.StateStarting, row.State == api.StateReady, row.State == api.StatePaused:
		lost := fault.Stage(desk.NextStage(row.Stages), api.CodeMachineFailed, "the machine was gone when the host started again")
		if row.State != api.StateStarting {
			lost.Stage = "run"
		}
		return h.spawn(d, func(context.Context) error { return lost }) //nolint:contextcheck // as above
	default:
		return h.spawn(d, nothing) //nolint:contextcheck // as above
	}
}
