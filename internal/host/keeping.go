package host

import (
	"context"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/policy"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// SetPolicy says when a desktop ends or rests by itself.
func (h *Host) SetPolicy(ctx context.Context, project, ref string, p api.Policy) (api.Desktop, error) {
	d, err := h.present(project, ref)
	if err != nil {
		return api.Desktop{}, err
	}
	d.Meter.Touch() // its time of idleness begins now
	d.Update(ctx, func(r *store.Desktop) { setPolicy(&r.Desktop, p) })
	return d.View(), nil
}

// keeping is the host as its policies see it.
type keeping struct{ h *Host }

// Subjects implements policy.Host.
func (k keeping) Subjects() []policy.Subject {
	all := k.h.all()
	list := make([]policy.Subject, 0, len(all))
	for _, d := range all {
		_, m, v := d.Parts()
		if v.Policy.IdleS == 0 && v.Expires.IsZero() {
			continue
		}
		s := policy.Subject{ID: d.ID, State: v.State, Policy: v.Policy, Expires: v.Expires}
		s.Last, s.Busy = d.Meter.Last()
		if m != nil && v.Policy.IdleS > 0 {
			s.CPU = policy.CPUTime(m.Info())
		}
		list = append(list, s)
	}
	return list
}

// Short implements policy.Host.
func (k keeping) Short() bool { return k.h.ledger.Short() }

// Expiring implements policy.Host.
func (k keeping) Expiring(id string, n policy.Notice) {
	k.h.mu.Lock()
	d := k.h.desktops[id]
	k.h.mu.Unlock()
	if d != nil {
		d.Publish(event.TypeExpiring, map[string]any{
			"action": string(n.Action), "reason": n.Reason, "at": n.At.UTC().Format(time.RFC3339),
		})
	}
}

// Act implements policy.Host.
func (k keeping) Act(ctx context.Context, id string, n policy.Notice) {
	k.h.mu.Lock()
	d := k.h.desktops[id]
	k.h.mu.Unlock()
	if d == nil {
		return
	}
	var err error
	switch n.Action {
	case api.IdleDelete:
		d.RequestDelete(ctx)
	case api.IdlePause:
		err = d.Pause(ctx, true)
	case api.IdleSuspend:
		err = d.Suspend(ctx)
	}
	log := k.h.cfg.Logger.With("desktop", id, "action", n.Action, "reason", n.Reason)
	if err != nil {
		log.Error("policy could not act", "err", err)
		return
	}
	log.Info("policy has acted")
}
