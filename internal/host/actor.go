package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Deadlines of the actor itself.
const (
	destroyLimit    = time.Minute
	destroyRetryMin = time.Second
	destroyRetryMax = time.Minute
)

// run is the actor: it begins the desktop, watches it, and removes it when it
// is asked to. When ctx ends first it lets go, and the machine runs on.
func (d *desktop) run(ctx context.Context, begin func(context.Context) error) {
	defer close(d.done)
	d.begin(ctx, begin)
	select {
	case <-d.deleting:
		d.remove(ctx)
	case <-ctx.Done():
		d.log.Debug("desktop let go")
	case <-d.machineDone():
		d.settle(ctx)
		select {
		case <-d.deleting:
			d.remove(ctx)
		case <-ctx.Done():
		}
	}
	d.closeParts()
}

// begin runs the start of the desktop under a context that a delete cancels,
// and settles how it ended.
func (d *desktop) begin(ctx context.Context, begin func(context.Context) error) {
	bctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-d.deleting:
			cancel(errDeleted)
		case <-bctx.Done():
		}
	})
	err := begin(bctx)
	cancel(nil)
	watch.Wait()
	switch {
	case err == nil, ctx.Err() != nil, isClosed(d.deleting):
	case isClosed(d.machineDone()):
		// settle tells more: run sees the end of the machine next.
	default:
		d.fail(ctx, err)
	}
}

// bringUp opens the live parts of a machine and walks through the stages. An end
// of the machine cancels it. keep says how many stages are reached already.
func (d *desktop) bringUp(ctx context.Context, m vm.Machine, steps func(*openParts) []boot.Step) error {
	parts, err := d.open(ctx, m)
	if err != nil {
		return err
	}
	mctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() {
		select {
		case <-m.Done():
			cancel(endOf(m))
		case <-mctx.Done():
		}
	})
	err = boot.Run(mctx, steps(parts), func() int { return m.Info().Accelerator.TimeoutScale() }, func(s api.Stage) { d.reached(ctx, s) })
	cancel(nil)
	if err != nil {
		return err
	}
	d.publish(event.TypeReady, nil)
	return nil
}

// endOf is why a machine ended, never nil.
func endOf(m vm.Machine) error {
	if err := m.Err(); err != nil {
		return err
	}
	return vm.ErrGone
}

// settle records that the machine has ended.
func (d *desktop) settle(ctx context.Context) {
	_, m, view := d.parts()
	d.closeParts()
	if m == nil || isClosed(d.deleting) {
		return
	}
	err := endOf(m)
	if errors.Is(err, vm.ErrGuestShutdown) {
		d.setState(ctx, api.StateStopped, nil)
		d.publish(event.TypeStopped, nil)
		d.log.Info("guest switched itself off")
		return
	}
	stage := "run"
	if view.State == api.StateStarting {
		stage = string(nextStage(view.Stages))
	}
	e := fault.At(stage, err)
	if e.Code != api.CodeMachineFailed {
		c := *e
		c.Code, c.Status = api.CodeMachineFailed, api.CodeMachineFailed.HTTPStatus()
		e = &c
	}
	d.fail(ctx, e)
}

// nextStage is the stage after the last one reached.
func nextStage(reached []api.StageTime) api.Stage {
	order := []api.Stage{
		api.StageAdmission, api.StageMachine, api.StageLink, api.StageHandshake, api.StageSession, api.StageDrawn,
	}
	return order[min(len(reached), len(order)-1)]
}

// fail records a failure with the tail of what the machine said.
func (d *desktop) fail(ctx context.Context, err error) {
	e := *fault.From(err)
	if e.Log == "" {
		e.Log = d.tails()
	}
	d.setState(ctx, api.StateFailed, &e)
	d.host.metrics.Failure(e.Stage)
	d.publish(event.TypeFailed, map[string]any{"code": string(e.Code), "stage": e.Stage, "detail": e.Detail})
	d.log.Error("desktop failed", "stage", e.Stage, "code", e.Code, "err", e.Detail)
}

// machineDone is closed when the machine has ended; it blocks for ever when
// there is none.
func (d *desktop) machineDone() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.machine == nil {
		return nil
	}
	return d.machine.Done()
}

// remove destroys the machine and buries the desktop. It tries until it has
// worked or ctx ends; then the next run of the host goes on with it.
func (d *desktop) remove(ctx context.Context) {
	d.closeParts()
	_, m, _ := d.parts()
	pause := destroyRetryMin
	for {
		err := d.destroy(ctx, m)
		if err == nil {
			break
		}
		d.log.Error("desktop not removed", "err", err)
		d.mu.Lock()
		d.destroyErr = err
		d.attempts++
		d.wake()
		d.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, destroyRetryMax)
	}
	d.host.tickets.Revoke(d.id)
	d.publish(event.TypeDeleted, nil)
	d.host.forget(d.id)
	d.log.Info("desktop removed")
}

// destroy goes on when the host stops: half a removal helps nobody.
func (d *desktop) destroy(ctx context.Context, m vm.Machine) error {
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
	defer cancel()
	if m != nil {
		if err := m.Destroy(dctx); err != nil {
			return fmt.Errorf("destroy machine of %s: %w", d.id, err)
		}
	}
	d.save.Lock()
	defer d.save.Unlock()
	return d.host.store.Bury(dctx, d.id, d.host.cfg.Now())
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
