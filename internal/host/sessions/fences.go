package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/session"
)

// followLimit bounds what is done after a publication; the next run does it else.
const followLimit = 30 * time.Second

// fences are those of one run. What they answer they also tell: the ledger, that the
// session is alive, and the host's list of workspaces, what was published.
type fences struct {
	session.Fences

	d     *Desk
	r     *run
	seals *sandbox.Checkpoints
}

// Acquire implements session.Fences.
func (f *fences) Acquire(ctx context.Context, scope session.Scope, by session.Claimant, ttl time.Duration) (session.Claim, error) {
	c, err := f.Fences.Acquire(ctx, scope, by, ttl)
	if err == nil {
		f.r.claimed(c.Fence.Tenure, c.Last)
		f.d.note(f.r)
		f.mark(ctx, c.Last)
		f.alive().Opened(f.r.id, billing.Owner{Project: f.r.project, Session: f.r.req.Workspace})
	}
	return c, err
}

// Renew implements session.Fences.
func (f *fences) Renew(ctx context.Context, fence session.Fence, ttl time.Duration) (time.Duration, error) {
	left, err := f.Fences.Renew(ctx, fence, ttl)
	switch {
	case err == nil:
		f.alive().Alive(f.r.id)
	case errors.Is(err, session.ErrLost):
		f.alive().Closed(f.r.id, true)
	}
	return left, err
}

// Publish implements session.Fences.
func (f *fences) Publish(ctx context.Context, fence session.Fence, draft session.Draft) (session.Publication, error) {
	p, err := f.Fences.Publish(ctx, fence, draft)
	if err != nil {
		return p, err
	}
	f.r.published(p)
	f.d.note(f.r)
	f.mark(ctx, &p)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followLimit)
	defer cancel()
	if err := f.d.cfg.Host.Workspaces.Follow(ctx, f.r.project, f.r.req.Workspace, p); err != nil {
		f.d.cfg.Logger.Warn("published; the list of workspaces is behind until the next run", "workspace", f.r.req.Workspace, "err", err)
	}
	return p, nil
}

// mark notes in the store what was published besides the workspace. Where that fails
// the next holder does it; until then the pointer keeps it.
func (f *fences) mark(ctx context.Context, p *session.Publication) {
	if p == nil || p.Output == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), followLimit)
	defer cancel()
	if err := f.d.store.Mark(ctx, workspaces.Scope(f.r.project, f.r.req.Workspace, f.r.id), *p.Output); err != nil {
		f.d.cfg.Logger.Warn("outputs not marked as published until the next run", "workspace", f.r.req.Workspace, "err", err)
	}
}

// sweep removes runtime checkpoints that the pointer does not name.
func (f *fences) sweep(ctx context.Context, t session.Tenure) error {
	last, err := f.Published(ctx, t.Scope)
	if err != nil {
		return err
	}
	named := ""
	if last != nil && last.RuntimeCheckpoint != nil {
		named = last.RuntimeCheckpoint.CheckpointID
	}
	return f.seals.Sweep(ctx, t, named)
}

// Release implements session.Fences.
func (f *fences) Release(ctx context.Context, fence session.Fence) error {
	f.alive().Closed(f.r.id, false)
	if f.d.cfg.Suspends {
		if err := f.sweep(ctx, fence.Tenure); err != nil {
			f.d.cfg.Logger.Warn("runtime checkpoints stay until the next run", "workspace", f.r.req.Workspace, "err", err)
		}
	}
	return f.Fences.Release(ctx, fence)
}

func (f *fences) alive() usage.Sessions { return f.d.cfg.Host.Usage.Sessions() }
