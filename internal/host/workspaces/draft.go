package workspaces

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// Begin says what a desktop of a workspace's holder begins with: W@CHECKPOINT, or
// nothing when there is nothing yet. active is what the fence has published, nil
// when that is nothing; its manifest is checked, and the workspace is made at need.
func (d *Desk) Begin(ctx context.Context, project, name string, active *session.Candidate) (string, error) {
	w, err := d.open(ctx, project, name)
	if err != nil {
		return "", err
	}
	if active != nil && isCheckpoint(*active) {
		if _, err := d.manifest(ctx, w, *active); err != nil {
			return "", err
		}
		if w, err = d.follow(ctx, w, &session.Publication{Draft: session.Draft{Workspace: *active}}); err != nil {
			return "", err
		}
	}
	if w.Published == "" {
		return "", nil
	}
	return w.Name + "@" + w.Published, nil
}

// Follow has this host's list of a workspace say what its fence has published. A
// published draft is held no longer: it stays by that.
func (d *Desk) Follow(ctx context.Context, project, name string, p session.Publication) error {
	w, err := d.open(ctx, project, name)
	if err == nil {
		_, err = d.follow(ctx, w, &p)
	}
	if err != nil || !isCheckpoint(p.Workspace) {
		return err
	}
	return d.Drop(ctx, p.Workspace)
}

// follow makes the row say what the fence has published. Only the holder of the
// fence calls it, and one that was overtaken changes nothing.
func (d *Desk) follow(ctx context.Context, w store.Workspace, p *session.Publication) (store.Workspace, error) {
	if p == nil || !isCheckpoint(p.Workspace) || p.Workspace.ID == w.Published {
		return w, nil
	}
	m, err := d.manifest(ctx, w, p.Workspace)
	if err != nil {
		return w, err
	}
	err = d.list(ctx, store.Publication{
		Workspace: w.ID, Was: w.Published, Checkpoint: checkpointOf(w.Name, m, p.Workspace.Metadata),
	})
	if err == nil {
		w.Published = p.Workspace.ID
	}
	return w, err
}

// list has the list of this host say what the fence has published, and the store, for
// the sweeps of other hosts.
func (d *Desk) list(ctx context.Context, p store.Publication) error {
	ref, err := parse(p.Checkpoint.Ref)
	if err == nil {
		err = workspace.MarkPublished(ctx, d.cfg.Blobs.Objects, ref)
	}
	return errors.Join(d.cfg.Store.Publish(ctx, p), err)
}

// manifest is that of a candidate.
func (d *Desk) manifest(ctx context.Context, w store.Workspace, c session.Candidate) (*workspace.Manifest, error) {
	ref, err := parse(c.ID)
	if err != nil {
		return nil, err
	}
	m, err := workspace.Load(ctx, d.cfg.Blobs.Objects, ref)
	if err == nil {
		err = same(c, m)
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint of workspace %s: %w", w.Name, err)
	}
	return m, nil
}

// Draft takes the present instant of a desktop's /workspace as a checkpoint of a
// workspace that nobody has published. It is held for a day: Follow or Drop it. The
// same key gives the same one again.
func (d *Desk) Draft(ctx context.Context, project, name, desktop, key string) (session.Candidate, error) {
	t, leave, err := d.taking(project, desktop)
	if err != nil {
		return session.Candidate{}, err
	}
	defer leave()
	if t.workspace, err = d.open(ctx, project, name); err != nil {
		return session.Candidate{}, err
	}
	if t.at, err = d.cfg.Store.Attached(ctx, t.desktop.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
		return session.Candidate{}, err
	}
	sum := sha256.Sum256([]byte(t.workspace.ID + "\n" + key))
	t.ids = []workspace.CheckpointID{workspace.CheckpointID("k" + hex.EncodeToString(sum[:12])), workspace.CheckpointID("f" + hex.EncodeToString(sum[:12]))}
	c, err := t.before(ctx)
	if err == nil && c == nil {
		var made api.Checkpoint
		made, err = t.run(ctx)
		c = &made
		if err == nil { // the next one of this desktop goes on from it
			err = d.cfg.Store.Attach(ctx, t.at)
		}
	}
	if err != nil {
		return session.Candidate{}, err
	}
	return candidateOf(*c), nil
}

// before finds what an earlier call of the same key has made; nil: nothing that
// can be used.
func (t *taking) before(ctx context.Context) (*api.Checkpoint, error) {
	objects := t.d.cfg.Blobs.Objects
	for _, id := range t.ids {
		ref := workspace.Ref{Workspace: workspace.ID(t.workspace.ID), Checkpoint: id}
		m, err := workspace.Load(ctx, objects, ref)
		if err == nil {
			err = workspace.Usable(ctx, objects, ref)
		}
		if err == nil && !m.Parent.IsZero() {
			// It may need what a sweep took before it could be seen.
			err = workspace.Usable(ctx, objects, m.Parent)
		}
		switch {
		case err == nil:
			c := checkpointOf(t.workspace.Name, m, session.Metadata{metaDesktop: t.desktop.ID})
			return &c, nil
		case !errors.Is(err, workspace.ErrMissing) && !errors.Is(err, workspace.ErrCondemned):
			return nil, err
		}
	}
	return nil, nil
}

// Drop lets sweeps have a draft, unless it was published.
func (d *Desk) Drop(ctx context.Context, c session.Candidate) error {
	ref, err := parse(c.ID)
	if err != nil {
		return err
	}
	return workspace.Release(ctx, d.cfg.Blobs.Objects, ref, string(ref.Checkpoint))
}

// taking begins a checkpoint of a desktop; leave is called at its end.
func (d *Desk) taking(project, desktop string) (t *taking, leave func(), err error) {
	v, m, err := d.cfg.Machine(project, desktop)
	if err != nil {
		return nil, nil, err
	}
	if m == nil {
		return nil, nil, api.Errorf(api.CodePrecondition, "desktop %s is %s: it has no machine whose disk could be read", v.Name, v.State)
	}
	leave, err = d.enter(v)
	return &taking{d: d, desktop: v, machine: m}, leave, err
}

// newIDs are those of a checkpoint that nobody asks for again.
func newIDs() []workspace.CheckpointID {
	return []workspace.CheckpointID{workspace.CheckpointID(token.NewID('c')), workspace.CheckpointID(token.NewID('c'))}
}
