package leases

import (
	"context"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// Sealer keeps machines as they are, for later generations to begin in; an ability of
// Machines.
type Sealer interface {
	session.RuntimeCheckpoints

	// Forget removes a checkpoint. One that is gone is no error.
	Forget(ctx context.Context, id string) error
}

func sealer(m Machines) (Sealer, error) {
	s, ok := m.(Sealer)
	if !ok {
		return nil, fmt.Errorf("runtime checkpoints: %w", session.ErrUnsupported)
	}
	return s, nil
}

// Seal keeps a machine as it is, once nothing with secrets lives in it any more. The
// machine goes on. What is asked for says the rest of what the checkpoint shall tell;
// a generation has one, and repeated it is the same.
func (d *Desk) Seal(ctx context.Context, by Caller, runtime string, want session.RuntimeSeal) (session.RuntimeCheckpoint, error) {
	none := session.RuntimeCheckpoint{}
	r, err := d.held(ctx, by, runtime)
	if err != nil {
		return none, err
	}
	unlock, err := d.lock(ctx, by.Project, r.tenure.Scope)
	if err != nil {
		return none, err
	}
	defer unlock()
	if r, err = d.held(ctx, by, runtime); err != nil {
		return none, err
	}
	m, err := d.machinesOf(ctx, r)
	if err != nil {
		return none, err
	}
	s, err := sealer(m)
	if err == nil {
		err = d.clean(ctx, r)
	}
	if err != nil {
		return none, err
	}
	want.Tenure, want.Lease = r.tenure, *r.lease
	return s.Create(ctx, want)
}

// Forget removes a runtime checkpoint. One that is gone is no error.
func (d *Desk) Forget(ctx context.Context, project, id string) error {
	m, err := d.cfg.Machines(ctx, project, Spec{})
	if err != nil {
		return err
	}
	s, err := sealer(m)
	if err != nil {
		return err
	}
	return s.Forget(ctx, id)
}

// begin makes the machine of an allocation: of a runtime checkpoint, if that is asked
// for.
func begin(ctx context.Context, m Machines, a session.Allocation, from *session.RuntimeCheckpoint) (session.Lease, error) {
	if from == nil {
		return m.Acquire(ctx, a)
	}
	s, err := sealer(m)
	switch {
	case err != nil:
		return session.Lease{}, err
	case a.Resume != nil:
		return session.Lease{}, api.Errorf(api.CodeInvalid, "a sandbox goes on from a suspended one, or from a runtime checkpoint, and not from both")
	case from.SessionID != a.Tenure.Scope.Session:
		return session.Lease{}, fmt.Errorf("runtime checkpoint %s is another session's: %w", from.CheckpointID, session.ErrForeign)
	case from.WorkGeneration >= a.Tenure.Generation:
		return session.Lease{}, api.Errorf(api.CodePrecondition, "runtime checkpoint %s is of generation %d, not older than %d", from.CheckpointID, from.WorkGeneration, a.Tenure.Generation)
	}
	if err := from.Validate(); err != nil {
		return session.Lease{}, errors.Join(api.Errorf(api.CodeInvalid, "%s", err), err)
	}
	return s.Restore(ctx, a, *from)
}
