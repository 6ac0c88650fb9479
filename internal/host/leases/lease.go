package leases

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// Get says what an incarnation is; session.ErrNotFound when it is gone.
func (d *Desk) Get(ctx context.Context, project, runtime string) (View, error) {
	r, err := d.there(ctx, project, runtime)
	if err != nil {
		return View{}, err
	}
	m, err := d.machinesOf(ctx, r)
	if err != nil {
		return View{}, err
	}
	return d.view(ctx, m, r)
}

// there finds an incarnation that is not gone.
func (d *Desk) there(ctx context.Context, project, runtime string) (row, error) {
	r, err := d.cfg.Book.find(ctx, project, runtime)
	if err == nil && (r.state == ended || r.state == failed) {
		err = fmt.Errorf("sandbox %s has ended: %w", runtime, session.ErrNotFound)
	}
	return r, err
}

// held finds an incarnation that the caller may change: it is leased, and no newer
// generation was seen.
func (d *Desk) held(ctx context.Context, by Caller, runtime string) (row, error) {
	r, err := d.there(ctx, by.Project, runtime)
	if err != nil {
		return row{}, err
	}
	newest, err := d.cfg.Book.newest(ctx, by.Project, r.tenure.Scope)
	if err != nil {
		return row{}, err
	}
	if newest > r.tenure.Generation || (by.Generation != 0 && by.Generation != r.tenure.Generation) {
		return row{}, &StaleError{Current: newest}
	}
	switch {
	case r.state == ending || (r.state == leased && !d.cfg.Now().Before(r.due)):
		return row{}, api.Errorf(api.CodePrecondition, "the lease of sandbox %s has run out", runtime)
	case r.state != leased:
		return row{}, api.Errorf(api.CodePrecondition, "sandbox %s is suspended: create one that goes on from it", runtime)
	}
	return r, nil
}

// Use reaches into the guest of an incarnation that the caller holds.
func (d *Desk) Use(ctx context.Context, by Caller, runtime string) (*live.Desktop, error) {
	r, err := d.held(ctx, by, runtime)
	if err != nil {
		return nil, err
	}
	in, err := d.cfg.Guest(ctx, r.project, *r.lease)
	if err != nil {
		return nil, err
	}
	seen := *in
	seen.Execs = secretive{Execs: in.Execs, book: d.cfg.Book, runtime: r.lease.RuntimeID}
	return &seen, nil
}

// Renew prolongs a lease to ttl from now, and says whether the machine lives:
// session.ErrSandboxLost when it does not, and any other error when that is not known.
func (d *Desk) Renew(ctx context.Context, by Caller, runtime string, ttl time.Duration) (View, error) {
	r, err := d.held(ctx, by, runtime)
	if err != nil {
		return View{}, err
	}
	m, err := d.machinesOf(ctx, r)
	if err != nil {
		return View{}, err
	}
	err = m.Heartbeat(ctx, r.tenure, *r.lease)
	if errors.Is(err, session.ErrSandboxLost) {
		r.state, r.due = ending, d.cfg.Now() // what is left of it
		defer d.wake()
		return View{}, errors.Join(err, d.cfg.Book.turn(context.WithoutCancel(ctx), r))
	}
	if err != nil {
		return View{}, err
	}
	r.due = d.cfg.Now().Add(ttl)
	kept, err := d.cfg.Book.renew(ctx, r.id, r.due)
	if err == nil && !kept {
		err = session.ErrSandboxLost
	}
	return View{Tenure: r.tenure, Lease: *r.lease, State: session.StateRunning, Expires: r.due}, err
}

// Suspend stops a machine so that a later generation can go on from it, and gives the
// incarnation that it became. A repeated call gives the same.
func (d *Desk) Suspend(ctx context.Context, by Caller, runtime string) (View, error) {
	r, err := d.cfg.Book.find(ctx, by.Project, runtime)
	if err != nil {
		return View{}, err
	}
	unlock, err := d.lock(ctx, by.Project, r.tenure.Scope)
	if err != nil {
		return View{}, err
	}
	defer unlock()
	if is, ok, err := d.cfg.Book.suspended(ctx, by.Project, runtime); ok || err != nil {
		return View{Tenure: is.tenure, Lease: leaseOf(is), State: session.StateSuspended}, err
	}
	if r, err = d.held(ctx, by, runtime); err != nil {
		return View{}, err
	}
	m, err := d.machinesOf(ctx, r)
	if err != nil {
		return View{}, err
	}
	l, err := m.Suspend(ctx, r.tenure, *r.lease)
	if err != nil {
		return View{}, err
	}
	is := r
	is.lease, is.state, is.source = &l, sealed, runtime
	if err := d.cfg.Book.seal(context.WithoutCancel(ctx), r, is); err != nil {
		return View{}, err
	}
	return View{Tenure: is.tenure, Lease: l, State: session.StateSuspended}, nil
}

func leaseOf(r row) session.Lease {
	if r.lease == nil {
		return session.Lease{}
	}
	return *r.lease
}

// End ends an incarnation. Gone already is success; one that could not be ended is
// tried again, by repeated calls and by itself.
func (d *Desk) End(ctx context.Context, by Caller, runtime string, reason session.Reason) error {
	return d.end(ctx, by, runtime, func(ctx context.Context, m Machines, r row) error {
		return m.Terminate(ctx, r.tenure, *r.lease, reason)
	})
}

// Reap is End for whoever has the stored lease alone. Another provider's, another
// scope's or another project's is session.ErrForeign.
func (d *Desk) Reap(ctx context.Context, by Caller, scope session.Scope, l session.Lease, reason session.Reason) error {
	if l.Provider != d.cfg.Provider {
		return fmt.Errorf("provider %q: %w", l.Provider, session.ErrForeign)
	}
	r, err := d.cfg.Book.find(ctx, by.Project, l.RuntimeID)
	if err == nil && r.tenure.Scope != scope {
		return fmt.Errorf("sandbox %s is of another scope: %w", l.RuntimeID, session.ErrForeign)
	}
	if err != nil && !errors.Is(err, session.ErrNotFound) {
		return err
	}
	return d.end(ctx, by, l.RuntimeID, func(ctx context.Context, m Machines, r row) error { return m.Reap(ctx, scope, *r.lease, reason) })
}

func (d *Desk) end(ctx context.Context, by Caller, runtime string, do func(context.Context, Machines, row) error) error {
	r, err := d.cfg.Book.find(ctx, by.Project, runtime)
	if errors.Is(err, session.ErrNotFound) {
		return nil // it was never there, or is gone for long
	}
	if err != nil {
		return err
	}
	if by.Generation != 0 && by.Generation < r.tenure.Generation {
		return &StaleError{Current: r.tenure.Generation}
	}
	unlock, err := d.lock(ctx, by.Project, r.tenure.Scope)
	if err != nil {
		return err
	}
	defer unlock()
	r, err = d.cfg.Book.find(ctx, by.Project, runtime)
	if err != nil || r.state == ended || r.state == failed {
		return err
	}
	m, err := d.machinesOf(ctx, r)
	if err != nil {
		return err
	}
	err = do(ctx, m, r)
	return errors.Join(err, d.settle(context.WithoutCancel(ctx), r, err, ended))
}
