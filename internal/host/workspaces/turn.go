package workspaces

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// Fences decide who may publish in a workspace.
type Fences struct {
	session.Fences

	// Publications lists what all sessions have published; sweeps leave it alone.
	Publications func(ctx context.Context) ([]session.Publication, error)
}

// Environment is that of the sessions which own the workspaces of this host.
const Environment = "workspaces"

// Scope is the session that owns a workspace, and one work item of it.
func Scope(project, name, work string) session.Scope {
	return session.Scope{Workspace: project, Environment: Environment, Session: name, Work: work}
}

// A turn is held for so long, and renewed.
const (
	turnTTL   = 90 * time.Second
	turnRenew = 30 * time.Second
)

// turn is the right to publish in a workspace, as its session's fence gives it.
type turn struct {
	d     *Desk
	fence session.Fence
	last  *session.Publication
	row   store.Workspace // as the fence has it
	leave func()
}

// begin takes the turn in a workspace, which is made at need. What was published there
// must be to be had, unless it is to be replaced.
func (d *Desk) begin(ctx context.Context, project, ref string, replace bool) (*turn, error) {
	w, err := d.open(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	claim, err := d.cfg.Fences.Acquire(ctx, Scope(project, w.Name, token.NewID('m')), session.NewClaimant("checkpoint"), turnTTL)
	if conflict, ok := errors.AsType[*session.ConflictError](err); ok {
		e := api.Errorf(api.CodeConflict, "workspace %s: %v", w.Name, conflict)
		e.Hint = "a run works in it; what that leaves is published at its end"
		return nil, e
	}
	if err != nil {
		return nil, fmt.Errorf("workspace %s: %w", w.Name, err)
	}
	t := &turn{d: d, fence: claim.Fence, last: claim.Last}
	t.hold(ctx)
	t.row, err = d.follow(ctx, w, claim.Last)
	if damage, ok := errors.AsType[*workspace.DamageError](err); ok && replace {
		d.cfg.Logger.Warn("what is replaced cannot be read; it will not be in the log", "workspace", w.Name, "checkpoint", claim.Last.Workspace.ID, "err", damage)
		err = nil
	}
	if err != nil {
		t.leave()
		return nil, err
	}
	return t, nil
}

// hold renews the fence until leave is called, which lets it go.
func (t *turn) hold(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(turnRenew)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			// One that is lost cannot publish, and is told so then.
			if _, err := t.d.cfg.Fences.Renew(ctx, t.fence, turnTTL); err != nil && ctx.Err() == nil {
				t.d.cfg.Logger.Warn("fence of a checkpoint not renewed", "workspace", t.fence.Scope.Session, "err", err)
			}
		}
	})
	t.leave = func() {
		cancel()
		renewing.Wait()
		rctx, done := context.WithTimeout(context.WithoutCancel(ctx), turnRenew)
		defer done()
		if err := t.d.cfg.Fences.Release(rctx, t.fence); err != nil {
			t.d.cfg.Logger.Warn("fence of a checkpoint not released; it ends by itself", "workspace", t.fence.Scope.Session, "err", err)
		}
	}
}

// publish makes a checkpoint what counts: in the fence, then in this host's own
// list. What the session has besides stays.
func (t *turn) publish(ctx context.Context, p store.Publication) error {
	draft := session.Draft{Workspace: candidateOf(p.Checkpoint)}
	if t.last != nil {
		draft.Output = t.last.Output
	}
	if _, err := t.d.cfg.Fences.Publish(ctx, t.fence, draft); err != nil {
		return fmt.Errorf("publish checkpoint %s: %w", p.Checkpoint.Ref, err)
	}
	p.Workspace, p.Was = t.row.ID, t.row.Published
	return t.d.list(ctx, p)
}

// open finds a workspace by name or id, or makes one of that name.
func (d *Desk) open(ctx context.Context, project, ref string) (store.Workspace, error) {
	w, err := d.cfg.Store.Find(ctx, project, ref)
	if !errors.Is(err, store.ErrNotFound) {
		return w, err
	}
	w = store.Workspace{ID: token.NewID('w'), Project: project, Name: ref, Created: d.cfg.Now().UTC()}
	err = d.cfg.Store.Insert(ctx, w)
	if errors.Is(err, store.ErrTaken) { // somebody else, just now
		return d.cfg.Store.Find(ctx, project, ref)
	}
	return w, err
}
