package desk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Deadlines of the actor itself.
const (
	destroyLimit    = time.Minute
	destroyRetryMin = time.Second
	destroyRetryMax = time.Minute
)

// op is something that the actor does between its waits, so that it never
// watches a machine that is being replaced.
type op struct {
	run  func(context.Context) error
	done chan error
}

// Run is the actor: it begins the desktop, watches it, and removes it when it is
// asked to. When ctx ends first it lets go, and the machine runs on.
func (d *Desktop) Run(ctx context.Context, begin func(context.Context) error) {
	defer close(d.done)
	defer d.closeParts()
	if err := d.undisturbed(ctx, begin); err != nil {
		d.fail(ctx, err)
	}
	settled := false
	for {
		var ended <-chan struct{}
		if !settled {
			ended = d.machineDone()
		}
		select {
		case <-d.deleting:
			d.remove(ctx)
			return
		case <-ctx.Done():
			d.log.Debug("desktop let go")
			return
		case <-ended:
			d.settle(ctx)
			settled = true
		case o := <-d.ops:
			o.done <- d.undisturbed(ctx, o.run)
			settled = settled && isClosed(d.machineDone())
		}
	}
}

// undisturbed runs fn under a context that a delete cancels. What fails because
// of that, of the end of the machine or of the host, is no failure of its own.
func (d *Desktop) undisturbed(ctx context.Context, fn func(context.Context) error) error {
	bctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-d.deleting:
			cancel(errDeleted)
		case <-bctx.Done():
		}
	})
	err := fn(bctx)
	cancel(nil)
	watch.Wait()
	return err
}

// do has the actor run fn and waits for it. fn goes on when ctx ends first.
func (d *Desktop) do(ctx context.Context, fn func(context.Context) error) error {
	o := op{run: fn, done: make(chan error, 1)}
	select {
	case d.ops <- o:
	case <-d.deleting:
		return api.Errorf(api.CodePrecondition, "desktop %s is being deleted", d.ID)
	case <-d.done:
		return api.Errorf(api.CodeGuestUnavail, "the host is stopping")
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// settle records that the machine has ended.
func (d *Desktop) settle(ctx context.Context) {
	_, m, view := d.Parts()
	d.closeParts()
	if m == nil || isClosed(d.deleting) {
		return
	}
	d.env.Usage.Ended(m.Info().Incarnation)
	err := reach.EndOf(m)
	if errors.Is(err, vm.ErrGuestShutdown) {
		d.setState(ctx, api.StateStopped, nil)
		d.Publish(event.TypeStopped, nil)
		d.log.Info("guest switched itself off")
		return
	}
	stage := "run"
	if view.State == api.StateStarting {
		stage = string(NextStage(view.Stages))
	}
	e := fault.At(stage, err)
	if e.Code != api.CodeMachineFailed {
		c := *e
		c.Code, c.Status = api.CodeMachineFailed, api.CodeMachineFailed.HTTPStatus()
		e = &c
	}
	d.record(ctx, e)
}

// fail records how the start failed, unless something else says more.
func (d *Desktop) fail(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil, isClosed(d.deleting):
	case isClosed(d.machineDone()):
		// settle tells more: Run sees the end of the machine next.
	default:
		d.record(ctx, err)
	}
}

// record records a failure with the tail of what the machine said.
func (d *Desktop) record(ctx context.Context, err error) {
	e := *fault.From(err)
	if e.Log == "" {
		_, m, _ := d.Parts()
		e.Log = tails(m)
	}
	d.setState(ctx, api.StateFailed, &e)
	d.env.Metrics.Failure(e.Stage)
	d.Publish(event.TypeFailed, map[string]any{"code": string(e.Code), "stage": e.Stage, "detail": e.Detail})
	d.log.Error("desktop failed", "stage", e.Stage, "code", e.Code, "err", e.Detail)
}

// machineDone is closed when the machine has ended; it blocks for ever when
// there is none.
func (d *Desktop) machineDone() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.machine == nil {
		return nil
	}
	return d.machine.Done()
}

// RequestDelete asks the actor to remove the desktop and answers at once.
func (d *Desktop) RequestDelete(ctx context.Context) {
	d.deleteOnce.Do(func() {
		d.Update(ctx, func(v *store.Desktop) { v.State = api.StateDeleting })
		close(d.deleting)
	})
}

// remove destroys the machine and buries the desktop. It tries until it has
// worked or ctx ends; then the next run of the host goes on with it.
func (d *Desktop) remove(ctx context.Context) {
	d.closeParts()
	pause := destroyRetryMin
	for {
		err := d.destroy(ctx)
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
	d.env.Gone(d.ID)
	d.Publish(event.TypeDeleted, nil)
	d.log.Info("desktop removed")
}

// destroy goes on when the host stops: half a removal helps nobody.
func (d *Desktop) destroy(ctx context.Context) error {
	dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
	defer cancel()
	_, m, _ := d.Parts()
	if m != nil {
		d.env.Usage.Ended(m.Info().Incarnation)
		if err := m.Destroy(dctx); err != nil {
			return fmt.Errorf("destroy machine of %s: %w", d.ID, err)
		}
	}
	d.save.Lock()
	defer d.save.Unlock()
	asleep := d.Row().Asleep
	if err := d.env.Store.Bury(dctx, d.ID, d.env.Now()); err != nil {
		return err
	}
	if asleep != "" {
		d.dropSnapshot(dctx, vm.SnapshotID(asleep))
	}
	return nil
}

// Delete removes the desktop. It returns when the actor has ended, or an attempt
// to remove it has failed.
func (d *Desktop) Delete(ctx context.Context) error {
	d.mu.Lock()
	before := d.attempts
	d.mu.Unlock()
	d.RequestDelete(ctx)
	for {
		d.mu.Lock()
		changed, err, attempts := d.changed, d.destroyErr, d.attempts
		d.mu.Unlock()
		if isClosed(d.done) {
			return nil
		}
		if attempts > before {
			return fault.At("delete", err)
		}
		select {
		case <-d.done:
		case <-changed:
		case <-ctx.Done():
			return fault.At("delete", ctx.Err())
		}
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
