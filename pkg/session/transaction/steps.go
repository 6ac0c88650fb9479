package transaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/pkg/session"
)

// prepare makes what the machine will need: workspace, place for outputs, grant.
func (r *run) prepare() error {
	t, ports, h := r.fence.Tenure, r.h.Ports, r.h
	active, err := r.active()
	if err != nil {
		return err
	}
	ws, err := call(r, "materialize workspace", func(ctx context.Context) (session.Binding, error) {
		return ports.Workspaces.Materialize(ctx, session.Materialization{Tenure: t, Strategy: r.plan.Workspace, Active: active, Key: t.Key(session.StageMaterialize)})
	}, func(b session.Binding) {
		r.warn("release late workspace", h.bounded(r.ctx, h.Cleanup, func(ctx context.Context) error { return ports.Workspaces.Release(ctx, t, b) }))
	})
	if err == nil {
		r.workspace = &ws
	}
	if err := r.checked("materialize workspace", err); err != nil {
		return err
	}
	if r.plan.Outputs != "" {
		out, err := call(r, "prepare outputs", func(ctx context.Context) (session.Binding, error) {
			return ports.Outputs.Prepare(ctx, session.OutputPreparation{Tenure: t, Strategy: r.plan.Outputs, Key: t.Key(session.StageOutputs)})
		}, func(b session.Binding) {
			r.warn("abort late outputs", h.bounded(r.ctx, h.Cleanup, func(ctx context.Context) error {
				return ports.Outputs.Abort(ctx, t, b, session.ReasonLeaseLost)
			}))
		})
		if err == nil {
			r.outputs = &out
		}
		if err := r.checked("prepare outputs", err); err != nil {
			return err
		}
	}
	return r.prepareEgress()
}

// active is the candidate to start from. A workspace that lives in a suspended
// machine cannot come from anywhere else.
func (r *run) active() (*session.Candidate, error) {
	last := r.pointer()
	if last == nil || r.plan.Workspace == session.Ephemeral {
		return nil, nil
	}
	if last.Retained != nil && r.plan.Workspace != session.RetainedRuntime {
		return nil, fmt.Errorf("the workspace lies in the suspended machine %s: it can only go on by %s, not by %s",
			last.Retained.RuntimeID, session.RetainedRuntime, r.plan.Workspace)
	}
	return &last.Workspace, nil
}

func (r *run) prepareEgress() error {
	if r.plan.Egress == session.Disabled {
		return nil
	}
	t, egress := r.fence.Tenure, r.h.Ports.Egress
	b, err := call(r, "prepare credential egress", func(ctx context.Context) (*session.EgressBinding, error) {
		return egress.Prepare(ctx, session.EgressPreparation{Tenure: t, Need: r.plan.Egress, Key: t.Key(session.StageEgress)})
	}, func(b *session.EgressBinding) {
		if b != nil {
			r.warn("revoke late credential egress", r.h.bounded(r.ctx, r.h.Cleanup, func(ctx context.Context) error {
				return errors.Join(egress.Revoke(ctx, t, *b, session.ReasonLeaseLost), egress.Release(ctx, t, *b))
			}))
		}
	})
	if err == nil {
		r.egress = b
	}
	if err := r.checked("prepare credential egress", err); err != nil {
		return err
	}
	if r.plan.Egress == session.Required && (b == nil || b.Enforcement != session.EgressEnforced) {
		return errors.New("prepare credential egress: it is required, and no enforced grant was given")
	}
	return nil
}

// allocate gets the machine, under an intent that was written before.
func (r *run) allocate() error {
	t, ports := r.fence.Tenure, r.h.Ports
	intent := session.NewIntent(t)
	err := r.do("write allocation intent", func(ctx context.Context) error { return ports.Stores.Intents.Begin(ctx, intent) })
	if err != nil {
		return err
	}
	a := session.Allocation{Tenure: t, Name: intent.ID, Plan: r.plan, Workspace: *r.workspace, Outputs: r.outputs, Egress: r.egress}
	last := r.pointer()
	if last != nil && r.plan.Workspace == session.RetainedRuntime {
		a.Resume = last.Retained
	}
	if last != nil && last.RuntimeCheckpoint != nil && r.plan.RuntimeCheckpoint != "" &&
		last.RuntimeCheckpoint.Reusable(r.plan.RuntimeCheckpoint, t, r.plan.Driver) {
		r.machine("restore runtime checkpoint", func(ctx context.Context) (session.Lease, error) {
			return ports.RuntimeCheckpoints.Restore(ctx, a, *last.RuntimeCheckpoint)
		}, func(err error) { r.warn("restore runtime checkpoint", err) })
	}
	if r.lease == nil {
		r.machine("acquire sandbox", func(ctx context.Context) (session.Lease, error) {
			return ports.Sandbox.Acquire(ctx, a)
		}, func(e error) { err = e })
	}
	if r.lease == nil {
		return err
	}
	r.intent = &intent
	// The machine counts as ours even when the run was aborted meanwhile: what is
	// bound is found after a crash of the way down.
	if err := r.h.bounded(r.ctx, r.h.Cleanup, func(ctx context.Context) error { return ports.Stores.Intents.Bind(ctx, intent.ID, *r.lease) }); err != nil {
		return fmt.Errorf("bind allocation intent: %w", err)
	}
	if err := r.checked("acquire sandbox", nil); err != nil {
		return err
	}
	r.monitor = r.spawn(r.heartbeats)
	return nil
}

// machine makes the lease by one way; a late one is ended.
func (r *run) machine(step string, f func(context.Context) (session.Lease, error), failed func(error)) {
	l, err := call(r, step, f, func(l session.Lease) {
		r.warn("terminate late machine", r.terminate(l, session.ReasonLeaseLost, ErrAbandoned))
	})
	if err == nil {
		// What has no id cannot be ended by it: that is the driver's to undo.
		if err = l.Validate(); err == nil {
			r.lease = &l
			return
		}
		err = fmt.Errorf("%s: %w", step, err)
	}
	failed(err)
}

// attach binds everything to the machine before the first instruction of the
// harness.
func (r *run) attach() error {
	t, ports := r.fence.Tenure, r.h.Ports
	err := r.do("attach workspace", func(ctx context.Context) error { return ports.Workspaces.Attach(ctx, t, *r.workspace, *r.lease) })
	if err == nil && r.outputs != nil {
		err = r.do("attach outputs", func(ctx context.Context) error { return ports.Outputs.Attach(ctx, t, *r.outputs, *r.lease) })
	}
	if err == nil && r.egress != nil {
		err = r.do("attach credential egress", func(ctx context.Context) error { return ports.Egress.Attach(ctx, t, *r.egress, *r.lease) })
	}
	return err
}
