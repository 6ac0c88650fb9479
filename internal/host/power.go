package host

import (
	"context"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
)

// Power pauses, suspends, resumes and restores desktops.
type Power struct{ h *Host }

// Pause stops the vCPUs of a desktop until it is resumed. Idempotent, as all of
// these are.
func (p *Power) Pause(ctx context.Context, project, ref string) (api.Desktop, error) {
	return p.do(project, ref, "pause", func(d *desk.Desktop) error { return d.Pause(ctx, false) })
}

// Resume lets a paused or suspended desktop run again.
func (p *Power) Resume(ctx context.Context, project, ref string) (api.Desktop, error) {
	return p.do(project, ref, "resume", func(d *desk.Desktop) error { return d.Resume(ctx) })
}

// Suspend moves the memory of a desktop to disk and ends its process. It stays so
// over restarts of the host, and resumes with exactly the programs that ran.
func (p *Power) Suspend(ctx context.Context, project, ref string) (api.Desktop, error) {
	return p.do(project, ref, "suspend", func(d *desk.Desktop) error { return d.Suspend(ctx) })
}

// Restore puts a desktop back to a snapshot, in place: id and name stay, the
// incarnation is a new one. The desktop goes on as it is when that fails.
func (p *Power) Restore(ctx context.Context, project, ref string, req api.Restore) (api.Desktop, error) {
	snap, err := p.h.Snapshots.find(ctx, project, req.Snapshot)
	if err != nil {
		return api.Desktop{}, err
	}
	if snap.Kind != store.KindSnapshot {
		return api.Desktop{}, api.Errorf(api.CodePrecondition, "snapshot %s is of kind %s: only named ones can be restored", snap.ID, snap.Kind)
	}
	if err := cloneable(snap); err != nil {
		return api.Desktop{}, err
	}
	_, letGo, err := p.h.Shelf.Hold(ctx, snap.ImageDigest)
	if err != nil {
		return api.Desktop{}, err
	}
	defer letGo()
	return p.do(project, ref, "restore", func(d *desk.Desktop) error { return d.Restore(ctx, snap) })
}

func (p *Power) do(project, ref, stage string, fn func(*desk.Desktop) error) (api.Desktop, error) {
	d, err := p.h.present(project, ref)
	if err != nil {
		return api.Desktop{}, err
	}
	if err := fn(d); err != nil {
		return d.View(), fault.At(stage, err)
	}
	return d.View(), nil
}
