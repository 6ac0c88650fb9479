package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// Plan is a workspace that a new desktop shall begin with. Its methods work on
// nil, which is no workspace.
type Plan struct {
	d         *Desk
	workspace store.Workspace
	manifest  *workspace.Manifest
}

// Plan finds the workspace of a request for a desktop; nil when it asks for none.
func (d *Desk) Plan(ctx context.Context, project string, req api.CreateDesktop) (*Plan, error) {
	if req.Workspace == "" {
		return nil, nil //nolint:nilnil // see Plan
	}
	w, ref, err := d.resolve(ctx, project, req.Workspace)
	if err != nil {
		return nil, err
	}
	m, err := workspace.Load(ctx, d.cfg.Blobs.Objects, ref)
	if err != nil {
		return nil, fmt.Errorf("restore workspace %s: %w", w.Name, err)
	}
	const mib = 1 << 20
	if m.Size%mib != 0 || req.WorkspaceMiB != 0 && req.WorkspaceMiB != m.Size/mib {
		return nil, api.Errorf(api.CodeInvalid, "workspace %s has a disk of %d bytes, which cannot be had in another size", w.Name, m.Size)
	}
	return &Plan{d: d, workspace: w, manifest: m}, nil
}

// MiB is the size of the disk; otherwise when there is no workspace.
func (p *Plan) MiB(otherwise int64) int64 {
	if p == nil {
		return otherwise
	}
	return p.manifest.Size >> 20
}

// Run rebuilds the disk, verifies all of it, and boots the desktop with it. When
// anything of the checkpoint is missing or damaged nothing is booted.
func (p *Plan) Run(ctx context.Context, dk *desk.Desktop, boot func() error) (err error) {
	if p == nil {
		return boot()
	}
	dk.Note("workspace " + p.workspace.Name + " is being restored")
	path := filepath.Join(p.d.cfg.DataDir, restoreDir, token.NewID('r'))
	defer func() {
		if rerr := os.Remove(path); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
	}()
	filled, err := p.fill(ctx, path)
	if err != nil {
		return fmt.Errorf("restore workspace %s: %w", p.workspace.Name, err)
	}
	dk.Note("")
	dk.Update(ctx, func(r *store.Desktop) {
		r.Restored = &store.Restored{Path: path, Filled: filled, Attachment: store.Attachment{
			Desktop: dk.ID, Workspace: p.workspace.ID, Ref: p.manifest.String(),
		}}
	})
	defer dk.Update(ctx, func(r *store.Desktop) { r.Restored = nil })
	return boot()
}

// fill writes the disk to path: in the provider's own format where it takes one, and
// raw elsewhere.
func (p *Plan) fill(ctx context.Context, path string) (filled bool, err error) {
	var f vm.DiskWriter
	filler, filled := p.d.cfg.Provider.(vm.Filler)
	if filled {
		f, err = filler.NewDisk(path, p.manifest.Size, holds(p.manifest))
	} else {
		f, err = raw(path, p.manifest.Size)
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return filled, p.d.chunks.Restore(ctx, p.manifest, f)
}

func raw(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(size); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// holds is where the disk of a checkpoint is not zero.
func holds(m *workspace.Manifest) []vm.Extent {
	var out []vm.Extent
	for _, r := range m.Runs {
		e := vm.Extent{Offset: r.Start * workspace.Block, Length: r.Count * workspace.Block}
		if n := len(out); n > 0 && out[n-1].Offset+out[n-1].Length == e.Offset {
			out[n-1].Length += e.Length
			continue
		}
		out = append(out, e)
	}
	return out
}

// Attach names the point at which a machine's disk is the checkpoint that it was
// made from, before its guest has seen it. Without it the next checkpoint reads
// all of the disk.
func (d *Desk) Attach(ctx context.Context, m vm.Machine, at store.Attachment) {
	err := d.attach(ctx, m, at)
	if err != nil {
		d.cfg.Logger.Error("restored workspace not attached; its next checkpoint cannot be published without replacing",
			"desktop", at.Desktop, "workspace", at.Workspace, "err", err)
	}
}

func (d *Desk) attach(ctx context.Context, m vm.Machine, at store.Attachment) error {
	if viewer, ok := d.cfg.Provider.(vm.Viewer); ok {
		point := vm.SnapshotID(token.NewID('p'))
		v, err := viewer.View(ctx, m, vm.ViewSpec{Point: point})
		if err != nil {
			d.cfg.Logger.Warn("no point of a restored disk; its next checkpoint reads all of it", "desktop", at.Desktop, "err", err)
		} else {
			at.Point = point
			if err := v.Close(); err != nil {
				return err
			}
		}
	}
	return d.cfg.Store.Attach(ctx, at)
}
