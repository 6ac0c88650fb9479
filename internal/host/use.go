package host

import (
	"context"
	"slices"

	"github.com/deskfork/deskfork/internal/host/desk"
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

// Control returns the live parts for a call that changes what is on the screen,
// after the lease has been checked.
func (h *Host) Control(ctx context.Context, project, ref string, by Holder) (*live.Desktop, error) {
	l, v, err := h.use(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	if err := awake(v); err != nil {
		return nil, err
	}
	if err := h.cfg.Lease.Check(ctx, v.ID, by.Name, by.Epoch); err != nil {
		return nil, err
	}
	return l, nil
}

// Holder says under which lease a call is made.
type Holder struct {
	Name  string // default: the caller's token
	Epoch uint64 // 0: the present one
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
	return nil, v, unusable(v)
}

// unusable says why a desktop without live parts has none.
func unusable(v api.Desktop) error {
	var e *api.Error
	switch v.State {
	case api.StateStarting, api.StateReady:
		e = api.Errorf(api.CodeGuestUnavail, "the machine of desktop %s does not run yet", v.Name)
		e.Stage = string(desk.NextStage(v.Stages))
	case api.StateFailed:
		e = api.Errorf(api.CodePrecondition, "desktop %s has failed", v.Name)
		if v.Failure != nil {
			e.Stage, e.Hint = v.Failure.Stage, "the failure: "+v.Failure.Detail
		}
	case api.StateStopped:
		e = api.Errorf(api.CodePrecondition, "the guest of desktop %s switched itself off", v.Name)
	case api.StateDeleting:
		e = api.Errorf(api.CodePrecondition, "desktop %s is being deleted", v.Name)
	case api.StatePaused, api.StateSuspended:
		e = api.Errorf(api.CodePrecondition, "desktop %s is %s", v.Name, v.State)
		e.Hint = "resume it first"
	default:
		e = api.Errorf(api.CodePrecondition, "desktop %s is %s", v.Name, v.State)
	}
	return e
}

// awake refuses what a guest that stands still cannot answer.
func awake(v api.Desktop) error {
	if v.State == api.StatePaused {
		return unusable(v)
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
