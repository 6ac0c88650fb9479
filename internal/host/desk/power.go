package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Pause stops the vCPUs. rest says that the next call lets them run again by
// itself. Idempotent.
func (d *Desktop) Pause(ctx context.Context, rest bool) error {
	return d.do(ctx, func(ctx context.Context) error {
		release, err := d.take(ctx)
		if err != nil {
			return err
		}
		defer release()
		r := d.Row()
		switch r.State {
		case api.StatePaused:
			if r.Rests && !rest {
				d.Update(ctx, func(v *store.Desktop) { v.Rests = false })
			}
			return nil
		case api.StateReady:
		default:
			return d.refuse(r, "paused")
		}
		if err := d.halt(ctx); err != nil {
			return err
		}
		d.Update(ctx, func(v *store.Desktop) { v.State, v.Rests = api.StatePaused, rest })
		d.Publish(event.TypePaused, map[string]any{"by_policy": rest})
		return nil
	})
}

// refuse says that a desktop cannot become what is wanted.
func (d *Desktop) refuse(r store.Desktop, what string) error {
	return api.Errorf(api.CodePrecondition, "desktop %s is %s: it cannot be %s", r.Name, r.State, what)
}

func (d *Desktop) pauser() (vm.Pauser, vm.Machine, error) {
	_, m, _ := d.Parts()
	p, ok := m.(vm.Pauser)
	if !ok {
		return nil, nil, api.Errorf(api.CodeUnsupported, "this host's provider of machines cannot pause them")
	}
	return p, m, nil
}

// halt stops the vCPUs.
func (d *Desktop) halt(ctx context.Context) error {
	p, m, err := d.pauser()
	if err != nil {
		return err
	}
	d.resting(func(r live.Rester) { r.Suspend() })
	if err := p.Pause(ctx); err != nil {
		d.resting(func(r live.Rester) { r.Resume() })
		return fmt.Errorf("pause machine: %w", err)
	}
	d.env.Usage.Paused(m.Info().Incarnation)
	return nil
}

// A guest's clock is as far behind as the call that sets it took.
const (
	clockSlack  = 40 * time.Millisecond
	clockRounds = 5
)

// unhalt lets the vCPUs run; the guest's clock is set before it is used.
func (d *Desktop) unhalt(ctx context.Context) error {
	p, m, err := d.pauser()
	if err != nil {
		return err
	}
	if err := p.Resume(ctx); err != nil {
		return fmt.Errorf("resume machine: %w", err)
	}
	d.env.Usage.Resumed(m.Info().Incarnation)
	d.resting(func(r live.Rester) {
		r.Resume()
		limit := d.env.Clone.Handshake * time.Duration(scale(m)())
		cctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		// The first call may have to wait for the link, and then sets the past.
		for range clockRounds {
			sent := d.env.Now()
			if err = r.SetClock(cctx, sent.UTC()); err != nil || d.env.Now().Sub(sent) <= clockSlack {
				return
			}
		}
	})
	if err != nil {
		d.log.Warn("clock not set after a pause", "err", err)
	}
	return nil
}

func (d *Desktop) resting(fn func(live.Rester)) {
	d.mu.Lock()
	p := d.parts
	d.mu.Unlock()
	if p == nil {
		return
	}
	if r, ok := p.Link.(live.Rester); ok {
		fn(r)
	}
}

// Resume lets a paused or suspended desktop run again. Idempotent.
func (d *Desktop) Resume(ctx context.Context) error {
	return d.do(ctx, func(ctx context.Context) error {
		release, err := d.take(ctx)
		if err != nil {
			return err
		}
		defer release()
		switch r := d.Row(); r.State {
		case api.StateReady:
			return nil
		case api.StatePaused:
			if err := d.unhalt(ctx); err != nil {
				return err
			}
			d.Update(ctx, func(v *store.Desktop) { v.State, v.Rests = api.StateReady, false })
			d.Publish(event.TypeResumed, map[string]any{"from": string(api.StatePaused)})
			return nil
		case api.StateSuspended:
			return d.wakeUp(ctx, r)
		default:
			return d.refuse(r, "resumed")
		}
	})
}

// Suspend seals the desktop to disk and ends its machine. Idempotent. What fails
// before its end leaves the desktop as it was.
func (d *Desktop) Suspend(ctx context.Context) error {
	return d.do(ctx, func(ctx context.Context) error {
		release, err := d.take(ctx)
		if err != nil {
			return err
		}
		defer release()
		r := d.Row()
		switch r.State {
		case api.StateSuspended:
			return nil
		case api.StateReady:
			// Nothing may happen after the instant that comes back.
			if err := d.halt(ctx); err != nil {
				return err
			}
		case api.StatePaused:
		default:
			return d.refuse(r, "suspended")
		}
		err = d.suspend(ctx)
		if err != nil && r.State == api.StateReady {
			if uerr := d.unhalt(context.WithoutCancel(ctx)); uerr != nil {
				d.log.Error("desktop stays paused after a failed suspension", "err", uerr)
				d.Update(ctx, func(v *store.Desktop) { v.State, v.Rests = api.StatePaused, true })
			}
		}
		return err
	})
}

func (d *Desktop) suspend(ctx context.Context) error {
	id := vm.SnapshotID(token.NewID('s'))
	made, sealed, err := d.seal(ctx, vm.SnapshotSpec{ID: id, Keep: true})
	if err != nil {
		return err
	}
	snap := store.Describe(made, sealed, store.KindSuspended)
	err = d.commit(ctx, func(v *store.Desktop) {
		v.State, v.Asleep, v.Rests = api.StateSuspended, string(id), false
	}, func(ctx context.Context, r store.Desktop) error {
		return d.env.Store.InsertSnapshot(ctx, snap, &r, nil)
	})
	if err != nil {
		d.removeFiles(context.WithoutCancel(ctx), id)
		return err
	}
	d.closeParts()
	d.mu.Lock()
	m := d.machine
	d.machine = nil
	d.mu.Unlock()
	d.dropMachine(ctx, m)
	d.Publish(event.TypeSuspended, map[string]any{"memory_bytes": made.MemoryBytes, "pause_ms": snap.PauseMS})
	return nil
}
