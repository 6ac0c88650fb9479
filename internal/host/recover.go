package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/event"
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
	return nil
}

// destroyStrays destroys machines without a desktop, side by side.
func (h *Host) destroyStrays(ctx context.Context, strays map[vm.Incarnation]vm.Machine) {
	var wait sync.WaitGroup
	for inc, m := range strays {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, destroyLimit)
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
	d := h.newDesktop(row)
	switch {
	case row.State == api.StateDeleting:
		d.requestDelete(ctx)
		if m != nil {
			d.setMachine(ctx, m)
		}
		return h.spawn(d, func(context.Context) error { return nil }) //nolint:contextcheck // an actor lives under the host's own context
	case m != nil:
		d.setMachine(ctx, m)
		d.publish(event.TypeAdopted, nil)
		return h.spawn(d, func(ctx context.Context) error { return d.relink(ctx, m, row.Stages) }) //nolint:contextcheck // an actor lives under the host's own context
	case row.State == api.StateStarting, row.State == api.StateReady:
		lost := fault.Stage(nextStage(row.Stages), api.CodeMachineFailed, "the machine was gone when the host started again")
		if row.State == api.StateReady {
			lost.Stage = "run"
		}
		return h.spawn(d, func(context.Context) error { return lost }) //nolint:contextcheck // an actor lives under the host's own context
	default:
		return h.spawn(d, func(context.Context) error { return nil }) //nolint:contextcheck // an actor lives under the host's own context
	}
}

// relink brings an adopted desktop back: the link and the handshake are made
// anew, since clock and connections are of the past; what was drawn stays drawn.
func (d *desktop) relink(ctx context.Context, m vm.Machine, before []api.StageTime) error {
	drawn := len(before) > 0 && before[len(before)-1].Stage == api.StageDrawn
	d.update(ctx, func(v *api.Desktop) {
		v.State, v.Failure = api.StateStarting, nil
		v.Stages = v.Stages[:min(len(v.Stages), 2)] // admission, machine
	})
	limits := d.host.cfg.Limits
	return d.bringUp(ctx, m, func(p *openParts) []boot.Step {
		w := d.wish()
		steps := []boot.Step{
			boot.LinkStep(p.Desktop, limits),
			boot.HandshakeStep(p.Desktop, limits, w, d.host.cfg.Now),
		}
		if drawn {
			// A user may be at work: neither display nor stillness is imposed.
			at := func(s api.Stage) boot.Step {
				return boot.Step{Stage: s, Limit: limits.Link, Run: func(context.Context, func(string)) error { return nil }}
			}
			return append(steps, at(api.StageSession), at(api.StageDrawn))
		}
		return append(steps, boot.SessionStep(p.Desktop, limits, w), boot.DrawnStep(p.Desktop, limits))
	})
}
