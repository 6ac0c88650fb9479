package leases

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// How much is ended at the same time, and how long rows of what is gone stay: they
// answer repeated calls, and the newest one of a scope holds its generation.
const (
	batch  = 16
	recent = 24 * time.Hour
	aged   = 90 * 24 * time.Hour
)

// Run ends what is due until ctx ends: machines whose lease has run out, those of
// older generations, and those that could not be ended before.
func (d *Desk) Run(ctx context.Context) {
	t := time.NewTicker(d.cfg.Interval)
	defer t.Stop()
	for {
		if err := d.Pass(ctx); err != nil && ctx.Err() == nil {
			d.cfg.Logger.Error("end sandboxes", "err", err)
		}
		select {
		case <-t.C:
		case <-d.kick:
		case <-ctx.Done():
			return
		}
	}
}

// Pass ends one batch of what is due. The errors of all that did not work are joined;
// those are tried again.
func (d *Desk) Pass(ctx context.Context) error {
	now := d.cfg.Now()
	all, err := d.cfg.Book.due(ctx, now, batch)
	if err != nil {
		return err
	}
	faults := make([]error, len(all))
	var wg sync.WaitGroup
	for i, r := range all {
		wg.Go(func() { faults[i] = d.lapse(ctx, r) })
	}
	wg.Wait()
	return errors.Join(errors.Join(faults...), d.cfg.Book.forget(ctx, now.Add(-recent), now.Add(-aged)))
}

// lapse ends one incarnation, unless it is being changed or was meanwhile.
func (d *Desk) lapse(ctx context.Context, r row) error {
	unlock, ok := d.busy.Try(turnOf(r.project, r.tenure.Scope))
	if !ok {
		return nil // the next pass sees what came of it
	}
	defer unlock()
	// Read anew under the lock: the row that was listed may be old.
	now, err := d.cfg.Book.again(ctx, r.id)
	if err != nil || now.state != r.state {
		return err
	}
	if mine, err := d.cfg.Book.claim(ctx, now, d.cfg.Now()); err != nil || !mine {
		return err
	}
	call, cancel := context.WithTimeout(ctx, d.cfg.Undo)
	defer cancel()
	err = d.reap(call, now)
	if ctx.Err() != nil {
		return err // this process stops; the next one goes on
	}
	return errors.Join(err, d.settle(ctx, now, err, ended))
}

// reap ends the machine of a row, or those that a process which died has made for it.
func (d *Desk) reap(ctx context.Context, r row) error {
	m, err := d.machinesOf(ctx, r)
	if err != nil {
		return err
	}
	var leases []session.Lease
	if r.lease != nil {
		leases = append(leases, *r.lease)
	} else if leases, err = m.Allocated(ctx, intent(r)); err != nil {
		return err
	}
	var faults error
	for _, l := range leases {
		faults = errors.Join(faults, m.Reap(ctx, r.tenure.Scope, l, session.ReasonLeaseLost))
	}
	if faults == nil {
		d.cfg.Logger.Warn("a sandbox was ended: nobody renewed its lease", "session", r.tenure.Scope.Session, "generation", r.tenure.Generation, "machines", len(leases))
	}
	return faults
}
