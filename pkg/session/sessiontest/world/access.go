package world

import (
	"context"
	"errors"

	"github.com/deskfork/deskfork/pkg/session"
)

// Egress is the world's credential egress.
type Egress struct{ w *World }

var _ session.CredentialEgress = Egress{}

// Egress gives the port.
func (w *World) Egress() Egress { return Egress{w} }

// Capabilities implements session.CredentialEgress.
func (e Egress) Capabilities(ctx context.Context, _ session.Scope) (session.EgressCapabilities, error) {
	return e.w.EgressCan, e.w.do(ctx, "egress.capabilities", nil, nil)
}

// Prepare implements session.CredentialEgress.
func (e Egress) Prepare(ctx context.Context, _ session.EgressPreparation) (*session.EgressBinding, error) {
	b, err := e.w.bind(ctx, "egress.prepare", "egress ", "", func() error { return nil })
	if err != nil || e.w.NoGrant {
		e.w.mu.Lock()
		defer e.w.mu.Unlock()
		delete(e.w.bindings, "egress "+b.ID)
		return nil, err
	}
	return &session.EgressBinding{ID: session.SecretOf(b.ID), Enforcement: e.w.EgressCan.Enforcement}, nil
}

// Attach implements session.CredentialEgress.
func (e Egress) Attach(ctx context.Context, _ session.Tenure, _ session.EgressBinding, l session.Lease) error {
	return e.w.on(ctx, "egress.attach", l, func(m *Machine) { m.Granted = true })
}

// Revoke implements session.CredentialEgress.
func (e Egress) Revoke(ctx context.Context, t session.Tenure, _ session.EgressBinding, _ session.Reason) error {
	return e.w.do(ctx, "egress.revoke", func() error {
		for _, m := range e.w.machines {
			if m.Name == session.NewIntent(t).ID {
				m.Granted = false
			}
		}
		return nil
	}, nil)
}

// Release implements session.CredentialEgress.
func (e Egress) Release(ctx context.Context, _ session.Tenure, b session.EgressBinding) error {
	return e.w.free(ctx, "egress.release", "egress "+b.ID.Reveal())
}

// Inputs is the world's session inputs.
type Inputs struct{ w *World }

var _ session.Inputs = Inputs{}

// Inputs gives the port.
func (w *World) Inputs() Inputs { return Inputs{w} }

// Materialize implements session.Inputs.
func (i Inputs) Materialize(ctx context.Context, in session.InputContext, _ *session.Candidate) error {
	return i.w.on(ctx, "inputs.materialize", in.Lease, nil)
}

// Synchronize implements session.Inputs. It asks before it changes anything.
func (i Inputs) Synchronize(ctx context.Context, in session.InputContext) error {
	if err := in.Authorize(ctx); err != nil {
		return err
	}
	i.w.mu.Lock()
	i.w.Synchronized = append(i.w.Synchronized, in.Key)
	i.w.mu.Unlock()
	return i.w.on(ctx, "inputs.synchronize", in.Lease, nil)
}

// Driver runs what the world says its harness does.
type Driver struct{ w *World }

var _ session.HarnessDriver = Driver{}

// Driver gives the port.
func (w *World) Driver() Driver { return Driver{w} }

// Lanes implements session.HarnessDriver.
func (d Driver) Lanes(ctx context.Context, _ session.Scope) ([]session.Lane, error) {
	return d.w.Live.Harness, d.w.do(ctx, "harness.lanes", nil, nil)
}

// Run implements session.HarnessDriver.
func (d Driver) Run(ctx context.Context, r session.HarnessRun) (session.Ending, error) {
	err := d.w.on(ctx, "harness.run", r.Lease, func(m *Machine) { m.Harness = true })
	switch {
	case errors.Is(err, context.Canceled):
		return session.EndingAborted, nil
	case err != nil:
		return "", err
	case d.w.Harness == nil:
		return session.EndingCompleted, nil
	}
	return d.w.Harness(ctx, r)
}
