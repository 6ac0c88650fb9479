package transaction

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// liveGate lets checkpoints of a running harness through, one at a time, until it
// is closed.
type liveGate struct {
	// turn holds one token, of whoever is in the gate.
	turn   chan struct{}
	closed bool
	seen   map[string]bool
}

func (g *liveGate) enter() { g.turn <- struct{}{} }

func (g *liveGate) leave() { <-g.turn }

func (g *liveGate) close() {
	g.enter()
	defer g.leave()
	g.closed = true
}

// liveCheckpoint publishes what a running harness has reached.
func (r *run) liveCheckpoint(ctx context.Context, c session.LiveCheckpoint) (int64, error) {
	r.gate.enter()
	defer r.gate.leave()
	switch s := r.plan.Workspace; {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case r.gate.closed:
		return 0, errors.New("live checkpoint: the harness has ended")
	case c.ID == "":
		return 0, errors.New("live checkpoint: it has no id")
	case c.SessionID != r.fence.Scope.Session:
		return 0, fmt.Errorf("live checkpoint %s: it is of session %q, not of this one", c.ID, c.SessionID)
	case r.gate.seen[c.ID]:
		return 0, fmt.Errorf("live checkpoint %s: there was one of that id in this run", c.ID)
	case s != session.CheckpointRestore && s != session.DurableMount:
		return 0, fmt.Errorf("live checkpoint %s: %w under the strategy %s, whose workspace cannot be kept while the machine runs", c.ID, session.ErrUnsupported, s)
	}
	r.gate.seen[c.ID] = true
	if err := r.synchronize("checkpoint-" + c.ID); err != nil {
		return 0, err
	}
	d, err := r.draft(func(s session.Stage) session.Stage { return s.Of(c.ID) }, false)
	if err == nil {
		err = r.publish(d) //nolint:contextcheck // the store decides, whatever the caller's context says
	}
	if errors.Is(err, session.ErrLost) {
		r.lose(err)
	}
	if err != nil {
		return 0, fmt.Errorf("live checkpoint %s: %w", c.ID, err)
	}
	return r.pointer().Revision, nil
}

// commit is everything from the end of the harness to the publication.
func (r *run) commit() error {
	if err := r.synchronize("final"); err != nil {
		return err
	}
	if err := r.suspend(); err != nil {
		return err
	}
	d, err := r.draft(func(s session.Stage) session.Stage { return s }, true)
	if err != nil {
		return err
	}
	return r.publish(d)
}

// suspend keeps the machine, under the strategy retained_runtime. The grant is
// taken back here and not on the way down, so that the pointer never names a
// machine that must be killed because its grant could not be.
func (r *run) suspend() error {
	if r.plan.Workspace != session.RetainedRuntime {
		return nil
	}
	t, ports := r.fence.Tenure, r.h.Ports
	r.monitor.end() // a suspended machine has no heartbeat
	l, err := call(r, "suspend sandbox", func(ctx context.Context) (session.Lease, error) { return ports.Sandbox.Suspend(ctx, t, *r.lease) }, nil)
	if err == nil {
		err = l.Validate()
	}
	if err != nil {
		return err
	}
	r.lease = &l
	if err := r.do("bind suspended machine", func(ctx context.Context) error { return ports.Stores.Intents.Bind(ctx, r.intent.ID, l) }); err != nil {
		return err
	}
	if r.egress == nil {
		return nil
	}
	err = r.do("revoke credential egress", func(ctx context.Context) error {
		return ports.Egress.Revoke(ctx, t, *r.egress, session.ReasonCompleted)
	})
	if err != nil {
		return err
	}
	r.egressRevoked = true
	return nil
}

// draft makes the candidates of a live or final publication.
func (r *run) draft(stage func(session.Stage) session.Stage, final bool) (session.Draft, error) {
	t, ports := r.fence.Tenure, r.h.Ports
	ws, err := call(r, "checkpoint workspace", func(ctx context.Context) (session.Candidate, error) {
		return ports.Workspaces.Checkpoint(ctx, session.WorkspaceCheckpoint{
			Tenure: t, Strategy: r.plan.Workspace, Binding: *r.workspace, Lease: *r.lease, Key: t.Key(stage(session.StageCheckpoint)),
		})
	}, nil)
	if err == nil {
		err = ws.Validate()
	}
	if err := r.checked("checkpoint workspace", err); err != nil {
		return session.Draft{}, err
	}
	d := session.Draft{Workspace: ws}
	last := r.pointer()
	if last != nil {
		// Without outputs of its own a run leaves those of earlier ones published.
		d.Output = last.Output
	}
	if last != nil && r.plan.Workspace == session.Ephemeral {
		// A run that keeps nothing must not make the session forget what it has.
		d.Workspace, d.Retained = last.Workspace, last.Retained
	}
	if final {
		if r.plan.Workspace == session.RetainedRuntime {
			d.Retained = r.lease
		}
		if d.RuntimeCheckpoint, err = r.seal(ws); err != nil {
			return session.Draft{}, err
		}
	}
	if r.outputs != nil {
		d.Output, err = r.deliver(stage(session.StageFinalize))
	}
	return d, err
}

// publish moves the pointer. The store decides, not the run's context: a lost
// answer is asked for again for as long as the lease lasts.
func (r *run) publish(d session.Draft) error {
	if err := r.aborted(); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	r.step("publish")
	for tries := 1; ; tries++ {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), min(r.h.Heartbeat, max(r.remaining(), time.Millisecond)))
		p, err := await(r.h, ctx, func(ctx context.Context) (session.Publication, error) {
			return r.h.Ports.Stores.Fences.Publish(ctx, r.fence, d)
		}, nil)
		cancel()
		switch {
		case err == nil:
			r.taken(p)
			return nil
		case errors.Is(err, session.ErrLost) && tries == 1:
			return fmt.Errorf("publish: %w", err)
		case errors.Is(err, session.ErrLost):
			return r.settle(context.WithoutCancel(r.ctx), d, err)
		}
		r.warn("publish", err)
		cause := r.aborted()
		if cause != nil || r.remaining() <= 0 {
			return r.settle(context.WithoutCancel(r.ctx), d, errors.Join(err, cause))
		}
		timer := time.NewTimer(r.h.Retry)
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			timer.Stop()
		}
	}
}

// taken notes a publication of this run.
func (r *run) taken(p session.Publication) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.revision = &p, p.Revision
	r.hasOut = r.hasOut || r.outputs != nil
	r.retained = r.keeps(p.Draft)
}

func (r *run) keeps(d session.Draft) bool {
	return d.Retained != nil && r.plan.Workspace == session.RetainedRuntime
}

// settle finds out what became of a publication whose answer was lost. err is the
// last one.
func (r *run) settle(ctx context.Context, d session.Draft, err error) error {
	ctx, cancel := context.WithTimeout(ctx, r.h.Cleanup)
	defer cancel()
	p, e := await(r.h, ctx, func(ctx context.Context) (*session.Publication, error) {
		return r.h.Ports.Stores.Fences.Published(ctx, r.fence.Scope)
	}, nil)
	if e == nil && p != nil && p.Generation == r.fence.Generation && same(p.Draft, d) {
		r.taken(*p)
		return nil
	}
	if e == nil && errors.Is(err, session.ErrLost) && (p == nil || p.Generation <= r.fence.Generation) {
		return fmt.Errorf("publish: %w", err) // nothing of ours can come any more
	}
	// The machine may be what the pointer names; recovery reads it and knows.
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retained = r.keeps(d)
	return errors.Join(ErrPublishUnknown, err, e)
}

func same(a, b session.Draft) bool {
	x, err1 := a.Canonical()
	y, err2 := b.Canonical()
	return err1 == nil && err2 == nil && x == y
}
