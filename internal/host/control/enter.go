package control

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
)

// Call says under which lease a call is made.
type Call struct {
	Holder

	Epoch uint64        // 0: the present one
	Wait  time.Duration // for the lease
}

// Use lets a call in that changes what is on the screen of a desktop, and answers
// its live parts: see Enter.
func (d *Desk) Use(ctx context.Context, project, ref string, by Call) (_ context.Context, l *live.Desktop, leave func(), _ error) {
	l, v, err := d.cfg.Use(ctx, project, ref)
	if err != nil {
		return nil, nil, nil, err
	}
	cctx, leave, err := d.Enter(ctx, v.ID, by.Holder, by.Epoch, by.Wait)
	if err != nil {
		return nil, nil, nil, err
	}
	if _, now, _ := d.cfg.Look(v.ID); now != l { // another machine came while it waited
		leave()
		return nil, nil, nil, api.Errorf(api.CodeGuestUnavail, "the machine of desktop %s was replaced", v.Name)
	}
	return cctx, l, leave, nil
}

// Enter lets a call of who in that changes what is on a screen. Its context ends
// when control changes hands, with a cause that says so; leave is called when
// nothing more of the call can come. A call that names no epoch waits for the
// lease so long if it may wait.
func (d *Desk) Enter(ctx context.Context, id string, who Holder, epoch uint64, wait time.Duration) (_ context.Context, leave func(), _ error) {
	limit := d.cfg.Now().Add(wait)
	for {
		e, _, err := d.open(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		refused := e.lease.Check(who, epoch)
		until := e.changed
		switch {
		case refused == nil && closed(e.settled):
			ctx, leave := d.admit(ctx, e)
			e.mu.Unlock()
			return ctx, leave, nil
		case refused == nil:
			until = e.settled
		case wait <= 0 || epoch != 0:
			e.mu.Unlock()
			return nil, nil, refused
		}
		e.mu.Unlock()
		if err := await(ctx, until, limit.Sub(d.cfg.Now()), refused); err != nil {
			return nil, nil, err
		}
	}
}

// await waits for a change. left bounds it when the answer otherwise is refused.
func await(ctx context.Context, until <-chan struct{}, left time.Duration, refused error) error {
	var end <-chan time.Time
	if refused != nil {
		timer := time.NewTimer(max(left, 0))
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-until:
		return nil
	case <-end:
		return refused
	case <-ctx.Done():
		return ctx.Err()
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// admit notes a call. e.mu is held.
func (d *Desk) admit(ctx context.Context, e *entry) (context.Context, func()) {
	if e.lease.Held() { // by the caller
		e.lease.heard(d.cfg.Now())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c := &inside{cancel: cancel, left: make(chan struct{})}
	e.calls[c] = true
	return ctx, func() {
		e.mu.Lock()
		delete(e.calls, c)
		e.mu.Unlock()
		close(c.left)
		cancel(nil)
	}
}

// Status says who holds the lease of a desktop, as who sees it.
func (d *Desk) Status(ctx context.Context, id string, who Holder) (api.Control, error) {
	e, _, err := d.open(ctx, id)
	if err != nil {
		return api.Control{}, err
	}
	defer e.mu.Unlock()
	return e.lease.View(who), nil
}

// Holder says who has control of a desktop now; nil: nobody. What an earlier run of
// the host has left is nobody's until somebody asks for it.
func (d *Desk) Holder(id string) *api.InControl {
	d.mu.Lock()
	e := d.by[id]
	d.mu.Unlock()
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.lease.Held() {
		return nil
	}
	return &api.InControl{Holder: e.lease.Holder.Name, Kind: e.lease.Holder.Kind}
}

// Change does what a holder, or who wants to be, asks for, and answers when it is
// done: who takes control may use it then. A request waits so long for its turn.
func (d *Desk) Change(ctx context.Context, id string, who Holder, req api.ChangeControl, wait time.Duration) (api.Control, error) {
	limit := d.cfg.Now().Add(wait)
	for {
		e, v, err := d.open(ctx, id)
		if err != nil {
			return api.Control{}, err
		}
		err = d.alter(ctx, e, v.ControlPolicy, who, req)
		view, changed, settled := e.lease.View(who), e.changed, e.settled
		e.mu.Unlock()
		if err == nil {
			return view, await(ctx, settled, 0, nil)
		}
		if req.Action != api.ControlRequest || wait <= 0 || !errors.Is(err, &api.Error{Code: api.CodeControlHeld}) {
			return view, err
		}
		if err := await(ctx, changed, limit.Sub(d.cfg.Now()), err); err != nil {
			return view, err
		}
	}
}

// alter does one change. e.mu is held.
func (d *Desk) alter(ctx context.Context, e *entry, policy api.ControlPolicy, who Holder, req api.ChangeControl) error {
	now := d.cfg.Now()
	ttl := time.Duration(req.TTLS) * time.Second
	first := cmp.Or(ttl, DefaultTTL)
	switch req.Action {
	case api.ControlTake:
		return d.change(ctx, e, event.TypeControlTaken, "", func() error {
			return e.lease.Take(who, policy.Take != "nobody", first, now)
		})
	case api.ControlRequest:
		fresh := false
		err := d.change(ctx, e, event.TypeControlTaken, "", func() (err error) {
			fresh, err = e.lease.Request(who, first, now)
			return err
		})
		if fresh {
			d.cfg.Publish(e.project, event.TypeControlAsked, e.id, map[string]any{"holder": who.Name, "kind": string(who.Kind)})
		}
		return err
	case api.ControlGive:
		return d.change(ctx, e, event.TypeControlGiven, "by "+who.Name, func() error { return e.lease.Give(who, req.Epoch, req.To, now) })
	case api.ControlRelease:
		return d.change(ctx, e, event.TypeControlReleased, "", func() error { return e.lease.Release(who, req.Epoch) })
	case api.ControlRenew:
		return d.change(ctx, e, event.TypeControlTaken, "", func() error { return e.lease.Renew(who, req.Epoch, ttl, now) })
	}
	return api.Errorf(api.CodeInvalid, "unknown change %q of control: want request, take, give, release or renew", req.Action)
}

// MayExec refuses programs while a person has control of a desktop whose policy
// says so.
func (d *Desk) MayExec(ctx context.Context, id string, who Holder) error {
	e, v, err := d.open(ctx, id)
	if err != nil {
		return err
	}
	defer e.mu.Unlock()
	if v.ControlPolicy.Exec != "refuse" || e.lease.Holder.Kind != api.ControlPerson || e.lease.Mine(who) {
		return nil
	}
	refused := e.lease.refuse("%s has control, and no program may be started meanwhile", e.lease.Holder.title())
	return refused
}
