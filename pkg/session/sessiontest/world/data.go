package world

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/deskfork/deskfork/pkg/session"
)

// Workspaces is the world's workspaces.
type Workspaces struct{ w *World }

var _ session.Workspaces = Workspaces{}

// Workspaces gives the port.
func (w *World) Workspaces() Workspaces { return Workspaces{w} }

// Strategies implements session.Workspaces.
func (p Workspaces) Strategies(ctx context.Context, _ session.Scope) ([]session.WorkspaceStrategy, error) {
	return p.w.Live.Workspace, p.w.do(ctx, "workspace.strategies", nil, nil)
}

// bind makes a binding, and undoes it when an After hook fails.
func (w *World) bind(ctx context.Context, call, kind, mount string, check func() error) (session.Binding, error) {
	b := session.Binding{MountPath: mount}
	err := w.do(ctx, call, func() error {
		if err := check(); err != nil {
			return err
		}
		b.ID = w.next("b")
		w.bindings[kind+b.ID] = true
		return nil
	}, nil)
	if err != nil && !errors.Is(err, ErrDead) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.bindings, kind+b.ID)
	}
	return b, err
}

// free ends a binding.
func (w *World) free(ctx context.Context, call, name string) error {
	return w.do(ctx, call, func() error {
		delete(w.bindings, name)
		return nil
	}, nil)
}

// on is a step on a machine that must run.
func (w *World) on(ctx context.Context, call string, l session.Lease, effect func(*Machine)) error {
	return w.do(ctx, call, func() error {
		m := w.machines[l.RuntimeID]
		if m == nil {
			return session.ErrSandboxLost
		}
		if effect != nil {
			effect(m)
		}
		return nil
	}, nil)
}

// keep makes a candidate, the same one for the same key.
func (w *World) keep(ctx context.Context, call, prefix, key string) (session.Candidate, error) {
	var c session.Candidate
	err := w.do(ctx, call, func() error {
		var ok bool
		if c, ok = w.byKey[key]; !ok {
			id := w.next(prefix)
			c = session.Candidate{ID: id, ContentHash: "sha256:" + id, Revision: int64(w.count), Metadata: session.Metadata{"key": key}}
			w.byKey[key], w.kept[id] = c, c
		}
		return nil
	}, nil)
	c.Metadata = maps.Clone(c.Metadata)
	return c, err
}

// Materialize implements session.Workspaces.
func (p Workspaces) Materialize(ctx context.Context, m session.Materialization) (session.Binding, error) {
	return p.w.bind(ctx, "workspace.materialize", "workspace ", session.WorkspacePath, func() error {
		if m.Active == nil {
			return nil
		}
		if c, ok := p.w.kept[m.Active.ID]; !ok || c.ContentHash != m.Active.ContentHash {
			return fmt.Errorf("checkpoint %s is missing or damaged", m.Active.ID)
		}
		return nil
	})
}

// Attach implements session.Workspaces.
func (p Workspaces) Attach(ctx context.Context, _ session.Tenure, _ session.Binding, l session.Lease) error {
	return p.w.on(ctx, "workspace.attach", l, nil)
}

// Checkpoint implements session.Workspaces.
func (p Workspaces) Checkpoint(ctx context.Context, c session.WorkspaceCheckpoint) (session.Candidate, error) {
	return p.w.keep(ctx, "workspace.checkpoint", "wrc_", c.Key)
}

// Release implements session.Workspaces.
func (p Workspaces) Release(ctx context.Context, _ session.Tenure, b session.Binding) error {
	return p.w.free(ctx, "workspace.release", "workspace "+b.ID)
}

// Outputs is the world's deliverables.
type Outputs struct{ w *World }

var _ session.Outputs = Outputs{}

// Outputs gives the port.
func (w *World) Outputs() Outputs { return Outputs{w} }

// Strategies implements session.Outputs.
func (p Outputs) Strategies(ctx context.Context, _ session.Scope) ([]session.OutputCapability, error) {
	return p.w.Live.Outputs, p.w.do(ctx, "outputs.strategies", nil, nil)
}

// Prepare implements session.Outputs.
func (p Outputs) Prepare(ctx context.Context, _ session.OutputPreparation) (session.Binding, error) {
	return p.w.bind(ctx, "outputs.prepare", "outputs ", session.OutputPath, func() error { return nil })
}

// Attach implements session.Outputs.
func (p Outputs) Attach(ctx context.Context, _ session.Tenure, _ session.Binding, l session.Lease) error {
	return p.w.on(ctx, "outputs.attach", l, nil)
}

// Collect implements session.Outputs.
func (p Outputs) Collect(ctx context.Context, _ session.Tenure, _ session.Binding, l session.Lease) ([]session.OutputEntry, error) {
	err := p.w.on(ctx, "outputs.collect", l, nil)
	if p.w.Entries != nil {
		return p.w.Entries, err
	}
	return []session.OutputEntry{{LogicalPath: "report/a.txt", ContentHash: "sha256:1", Size: 5}}, err
}

// Finalize implements session.Outputs.
func (p Outputs) Finalize(ctx context.Context, s session.OutputSet) (session.Candidate, error) {
	return p.w.keep(ctx, "outputs.finalize", "out_", s.Key)
}

// Release implements session.Outputs.
func (p Outputs) Release(ctx context.Context, _ session.Tenure, b session.Binding) error {
	return p.w.free(ctx, "outputs.release", "outputs "+b.ID)
}

// Abort implements session.Outputs.
func (p Outputs) Abort(ctx context.Context, _ session.Tenure, b session.Binding, _ session.Reason) error {
	return p.w.free(ctx, "outputs.abort", "outputs "+b.ID)
}
