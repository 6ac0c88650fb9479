package host

import (
	"context"
	"slices"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Guest returns the live parts of a desktop whose guestd has answered. Calls
// through them wait for that guest alone.
func (h *Host) Guest(ctx context.Context, project, ref string) (*live.Desktop, error) {
	l, v, err := h.use(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	if err := awake(v); err != nil {
		return nil, err
	}
	if v.State == api.StateStarting && !slices.ContainsFunc(v.Stages, func(t api.StageTime) bool { return t.Stage == api.StageHandshake }) {
		e := api.Errorf(api.CodeGuestUnavail, "desktop %s is still starting: stage %s is not reached yet", v.Name, api.StageHandshake)
		e.Stage = string(desk.NextStage(v.Stages))
		e.Hint = "wait for stage handshake (programs, files) or drawn (screen)"
		return nil, e
	}
	return l, nil
}

// Screen returns the picture of a desktop, which is there as soon as its machine
// runs, and stays when its start has failed.
func (h *Host) Screen(ctx context.Context, project, ref string) (live.Screen, error) {
	l, _, err := h.use(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	return l.Screen, nil
}

// Peek is Screen for who glances at it from afar: that is no use, keeps no desktop
// busy and wakes none. Pictures are to be asked for with Shot.Peek.
func (h *Host) Peek(project, ref string) (live.Screen, error) {
	d, err := h.present(project, ref)
	if err != nil {
		return nil, err
	}
	l, _, v := d.Parts()
	if l == nil {
		return nil, fault.Unusable(v, desk.NextStage(v.Stages))
	}
	return l.Screen, nil
}

// look describes a desktop by its id, with its live parts.
func (h *Host) look(id string) (api.Desktop, *live.Desktop, bool) {
	h.mu.Lock()
	d := h.desktops[id]
	h.mu.Unlock()
	if d == nil {
		return api.Desktop{}, nil, false
	}
	l, _, v := d.Parts()
	return v, l, true
}

// act finds the live parts of a desktop for a call that changes what is on its
// screen.
func (h *Host) act(ctx context.Context, project, ref string) (*live.Desktop, api.Desktop, error) {
	l, v, err := h.use(ctx, project, ref)
	if err == nil {
		err = awake(v)
	}
	return l, v, err
}

func (h *Host) use(ctx context.Context, project, ref string) (*live.Desktop, api.Desktop, error) {
	if err := h.whenReady(); err != nil {
		return nil, api.Desktop{}, err
	}
	d, err := h.find(project, ref)
	if err != nil {
		return nil, api.Desktop{}, err
	}
	d.Meter.Touch()
	if d.Row().Rests {
		if err := d.Resume(ctx); err != nil {
			return nil, api.Desktop{}, err
		}
	}
	l, _, v := d.Parts()
	if l != nil {
		return l, v, nil
	}
	return nil, v, fault.Unusable(v, desk.NextStage(v.Stages))
}

// awake refuses what a guest that stands still cannot answer.
func awake(v api.Desktop) error {
	if v.State == api.StatePaused {
		return fault.Unusable(v, desk.NextStage(v.Stages))
	}
	return nil
}

// machine is a desktop and what it has.
func (h *Host) machine(project, ref string) (api.Desktop, vm.Machine, error) {
	d, err := h.present(project, ref)
	if err != nil {
		return api.Desktop{}, nil, err
	}
	_, m, v := d.Parts()
	return v, m, nil
}
