package world

import (
	"context"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/pkg/session"
)

// Provider is the provider of every machine of a world.
const Provider = "fake"

// Sandbox is the world's machines. It finds them by the name of their intent too.
type Sandbox struct{ w *World }

var (
	_ session.Sandbox     = Sandbox{}
	_ session.Allocations = Sandbox{}
)

// Sandbox gives the port.
func (w *World) Sandbox() Sandbox { return Sandbox{w} }

// Capabilities implements session.Sandbox.
func (s Sandbox) Capabilities(ctx context.Context, _ session.Scope) (session.SandboxCapabilities, error) {
	return s.w.Live.Sandbox, s.w.do(ctx, "sandbox.capabilities", nil, nil)
}

// Acquire implements session.Sandbox. As a driver must, it undoes what it made when
// it fails.
func (s Sandbox) Acquire(ctx context.Context, a session.Allocation) (session.Lease, error) {
	var l session.Lease
	err := s.w.do(ctx, "sandbox.acquire", func() error {
		if a.Resume != nil && (s.w.machines[a.Resume.RuntimeID] == nil || !s.w.sealed[a.Resume.RuntimeID]) {
			return fmt.Errorf("no suspended machine %s", a.Resume.RuntimeID)
		}
		l = s.make(a.Name)
		return nil
	}, nil)
	if err != nil && l.RuntimeID != "" && !errors.Is(err, ErrDead) {
		s.remove(l.RuntimeID)
	}
	return l, err
}

func (s Sandbox) make(name string) session.Lease {
	l := session.Lease{Provider: Provider, RuntimeID: s.w.next("r"), Metadata: session.Metadata{"node": "n1"}}
	s.w.machines[l.RuntimeID] = &Machine{Lease: l, Name: name}
	return l
}

func (s Sandbox) remove(id string) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	delete(s.w.machines, id)
	delete(s.w.sealed, id)
}

// Heartbeat implements session.Sandbox.
func (s Sandbox) Heartbeat(ctx context.Context, _ session.Tenure, l session.Lease) error {
	return s.w.do(ctx, "sandbox.heartbeat", func() error {
		if s.w.machines[l.RuntimeID] == nil {
			return session.ErrSandboxLost
		}
		return nil
	}, nil)
}

// Suspend implements session.Sandbox: the incarnation becomes a sealed one of
// another id.
func (s Sandbox) Suspend(ctx context.Context, _ session.Tenure, l session.Lease) (session.Lease, error) {
	var sealed session.Lease
	err := s.w.do(ctx, "sandbox.suspend", func() error {
		m := s.w.machines[l.RuntimeID]
		if m == nil {
			return session.ErrSandboxLost
		}
		delete(s.w.machines, l.RuntimeID)
		sealed = s.make(m.Name)
		s.w.sealed[sealed.RuntimeID] = true
		return nil
	}, nil)
	return sealed, err
}

// Terminate implements session.Sandbox.
func (s Sandbox) Terminate(ctx context.Context, _ session.Tenure, l session.Lease, _ session.Reason) error {
	return s.w.do(ctx, "sandbox.terminate", func() error {
		if m := s.w.machines[l.RuntimeID]; m != nil && m.Granted {
			return errors.New("the grant was not revoked before")
		}
		return s.end(l)
	}, nil)
}

// Reap implements session.Sandbox.
func (s Sandbox) Reap(ctx context.Context, _ session.Scope, l session.Lease, _ session.Reason) error {
	return s.w.do(ctx, "sandbox.reap", func() error { return s.end(l) }, nil)
}

func (s Sandbox) end(l session.Lease) error {
	if l.Provider != Provider {
		return session.ErrForeign
	}
	delete(s.w.machines, l.RuntimeID)
	delete(s.w.sealed, l.RuntimeID)
	return nil
}

// Inspect implements session.Sandbox.
func (s Sandbox) Inspect(_ context.Context, l session.Lease) (session.RuntimeState, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	switch {
	case s.w.machines[l.RuntimeID] == nil:
		return session.StateStopped, nil
	case s.w.sealed[l.RuntimeID]:
		return session.StateSuspended, nil
	}
	return session.StateRunning, nil
}

// Allocated implements session.Allocations.
func (s Sandbox) Allocated(ctx context.Context, in session.Intent) ([]session.Lease, error) {
	var all []session.Lease
	err := s.w.do(ctx, "sandbox.allocated", func() error {
		for _, m := range s.w.machines {
			if m.Name == in.ID {
				all = append(all, m.Lease)
			}
		}
		return nil
	}, nil)
	return all, err
}

// RuntimeCheckpoints is the world's sealed machines.
type RuntimeCheckpoints struct{ w *World }

var _ session.RuntimeCheckpoints = RuntimeCheckpoints{}

// RuntimeCheckpoints gives the port.
func (w *World) RuntimeCheckpoints() RuntimeCheckpoints { return RuntimeCheckpoints{w} }

// Create implements session.RuntimeCheckpoints.
func (c RuntimeCheckpoints) Create(ctx context.Context, s session.RuntimeSeal) (session.RuntimeCheckpoint, error) {
	var made session.RuntimeCheckpoint
	err := c.w.do(ctx, "checkpoints.create", func() error {
		made = session.RuntimeCheckpoint{
			Provider: Provider, CheckpointID: c.w.next("rc"), Kind: s.Kind, SourceRuntimeID: s.Lease.RuntimeID, SessionID: s.Tenure.Scope.Session,
			WorkGeneration: s.Tenure.Generation, WorkspaceRevision: s.WorkspaceRevision, HarnessVersion: s.HarnessVersion, RuntimeIdentity: s.RuntimeIdentity,
		}
		if c.w.Mangle != nil {
			c.w.Mangle(&made)
		}
		c.w.seals[made.CheckpointID] = made
		return nil
	}, nil)
	return made, err
}

// Restore implements session.RuntimeCheckpoints.
func (c RuntimeCheckpoints) Restore(ctx context.Context, a session.Allocation, from session.RuntimeCheckpoint) (session.Lease, error) {
	var l session.Lease
	err := c.w.do(ctx, "checkpoints.restore", func() error {
		if _, ok := c.w.seals[from.CheckpointID]; !ok {
			return session.ErrNotFound
		}
		l = Sandbox(c).make(a.Name)
		return nil
	}, nil)
	if err != nil && l.RuntimeID != "" && !errors.Is(err, ErrDead) {
		Sandbox(c).remove(l.RuntimeID)
	}
	return l, err
}
