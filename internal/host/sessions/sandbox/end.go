package sandbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// named finds the desktop of a lease; nil when the incarnation that the lease names
// is gone, whatever has become of the desktop.
func (s *Sandbox) named(ctx context.Context, l session.Lease) (*api.Desktop, error) {
	project, id, err := Desktop(l)
	if err == nil {
		err = s.here(l)
	}
	if err != nil {
		return nil, err
	}
	v, err := s.cfg.Host.Desktop(ctx, project, id)
	if missing(err) || err == nil && runtimeID(v) != l.RuntimeID {
		return nil, nil //nolint:nilnil // see the contract
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// Heartbeat implements session.Sandbox.
func (s *Sandbox) Heartbeat(ctx context.Context, _ session.Tenure, l session.Lease) error {
	v, err := s.named(ctx, l)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if v == nil {
		return fmt.Errorf("desktop of incarnation %s: %w", l.RuntimeID, session.ErrSandboxLost)
	}
	switch v.State {
	case api.StateReady, api.StateStarting, api.StatePaused:
		return nil
	default:
		err := fmt.Errorf("desktop %s is %s: %w", v.ID, v.State, session.ErrSandboxLost)
		if v.Failure != nil {
			err = errors.Join(err, v.Failure)
		}
		return err
	}
}

// Suspend implements session.Sandbox. A desktop whose suspension nobody hears of is
// removed: it would be nobody's.
func (s *Sandbox) Suspend(ctx context.Context, _ session.Tenure, l session.Lease) (session.Lease, error) {
	v, err := s.named(ctx, l)
	if err != nil {
		return session.Lease{}, fmt.Errorf("suspend: %w", err)
	}
	if v == nil {
		return session.Lease{}, fmt.Errorf("suspend: desktop of incarnation %s: %w", l.RuntimeID, session.ErrSandboxLost)
	}
	now, err := s.cfg.Host.Power.Suspend(ctx, v.Project, v.ID)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil && now.State != api.StateSuspended {
		err = fmt.Errorf("desktop %s is %s", now.ID, now.State)
	}
	if err == nil {
		return s.leaseOf(now), nil
	}
	err = fmt.Errorf("suspend desktop %s: %w", v.ID, err)
	uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if now, serr := s.cfg.Host.Desktop(uctx, v.Project, v.ID); serr == nil && now.State == api.StateSuspended {
		err = errors.Join(err, s.cfg.Host.Delete(uctx, v.Project, v.ID))
	}
	return session.Lease{}, err
}

// Terminate implements session.Sandbox.
func (s *Sandbox) Terminate(ctx context.Context, t session.Tenure, l session.Lease, reason session.Reason) error {
	return s.Reap(ctx, t.Scope, l, reason)
}

// Reap implements session.Sandbox. A desktop that has another incarnation than the
// lease names stays: somebody has taken it over.
func (s *Sandbox) Reap(ctx context.Context, scope session.Scope, l session.Lease, _ session.Reason) error {
	v, err := s.named(ctx, l)
	if err != nil || v == nil {
		return err
	}
	if v.Labels[LabelScope] != digest(scope.Key()) {
		return fmt.Errorf("end desktop %s: it is not that session's: %w", v.ID, session.ErrForeign)
	}
	if err := s.cfg.Host.Delete(ctx, v.Project, v.ID); err != nil && !missing(err) {
		return fmt.Errorf("end desktop %s: %w", v.ID, err)
	}
	return nil
}

// Inspect implements session.Sandbox.
func (s *Sandbox) Inspect(ctx context.Context, l session.Lease) (session.RuntimeState, error) {
	v, err := s.named(ctx, l)
	if err != nil {
		return session.StateUnknown, err
	}
	if v == nil {
		return session.StateStopped, nil
	}
	switch v.State {
	case api.StateReady, api.StateStarting, api.StatePaused:
		return session.StateRunning, nil
	case api.StateSuspended:
		return session.StateSuspended, nil
	case api.StateFailed, api.StateStopped:
		return session.StateStopped, nil
	case api.StateDeleting:
	}
	return session.StateUnknown, nil
}

// Allocated implements session.Allocations: of whatever project.
func (s *Sandbox) Allocated(ctx context.Context, in session.Intent) ([]session.Lease, error) {
	list, err := s.cfg.Host.Desktops(ctx, "", host.ListFilter{Name: Name(in.ID), Labels: []string{LabelScope + "=" + digest(in.Tenure.Scope.Key())}})
	if err != nil {
		return nil, err
	}
	all := make([]session.Lease, 0, len(list))
	for _, v := range list {
		all = append(all, s.leaseOf(v))
	}
	return all, nil
}
