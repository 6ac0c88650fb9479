package workspaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
)

const (
	// freezeFor is after how long the guest thaws by itself.
	freezeFor = 20 * time.Second
	// The limits of requests, before scaling. Dirty pages are written out before
	// the file system stands still.
	freezeLimit, thawLimit = 30 * time.Second, 10 * time.Second
)

// Checkpoint takes and publishes the present instant of a desktop's /workspace. A
// repeated key answers the checkpoint that it made.
func (d *Desk) Checkpoint(ctx context.Context, project, desktop string, req api.CreateCheckpoint, key string) (api.Checkpoint, error) {
	k, err := once.Key(project, key, "checkpoint "+desktop, req)
	if err != nil {
		return api.Checkpoint{}, err
	}
	var made api.Checkpoint
	ref, err := d.cfg.Keys.Do(ctx, k, func() (string, error) {
		var err error
		made, err = d.checkpoint(ctx, project, desktop, req, k)
		return made.Ref, err
	})
	if err != nil || made.Ref != "" {
		return made, err
	}
	return d.cfg.Store.Checkpoint(ctx, project, ref)
}

func (d *Desk) checkpoint(ctx context.Context, project, desktop string, req api.CreateCheckpoint, key *store.Key) (api.Checkpoint, error) {
	t, leave, err := d.taking(project, desktop)
	if err != nil {
		return api.Checkpoint{}, err
	}
	defer leave()
	turn, err := t.target(ctx, req)
	if err != nil {
		return api.Checkpoint{}, err
	}
	defer turn.leave()
	t.workspace, t.ids = turn.row, newIDs()
	c, err := t.run(ctx)
	if err == nil {
		err = turn.publish(ctx, store.Publication{Checkpoint: c, Attachment: t.at, Key: key})
	}
	if err != nil {
		return api.Checkpoint{}, err
	}
	// Published, it is safe; a hold that stays ends by itself.
	if err := d.Drop(ctx, candidateOf(c)); err != nil {
		d.cfg.Logger.Warn("hold not released; it ends by itself", "checkpoint", c.Ref, "err", err)
	}
	d.cfg.Logger.Info("checkpoint published", "desktop", t.desktop.ID, "workspace", t.workspace.Name, "checkpoint", c.Ref, "added", c.Added, "full", c.Full)
	return c, nil
}

// enter refuses a second checkpoint of a desktop at a time.
func (d *Desk) enter(v api.Desktop) (leave func(), err error) {
	leave, ok := d.busy.Try(v.ID)
	if !ok {
		return nil, api.Errorf(api.CodePrecondition, "a checkpoint of desktop %s is being taken", v.Name)
	}
	return leave, nil
}

// target takes the turn in the workspace to publish in, which is made at need, and
// finds what the desktop's disk began with. What would hide somebody else's work is
// refused before anything is read.
func (t *taking) target(ctx context.Context, req api.CreateCheckpoint) (*turn, error) {
	d, v := t.d, t.desktop
	at, err := d.cfg.Store.Attached(ctx, v.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	t.at = at
	name := req.Workspace
	if name == "" {
		if name = at.Workspace; name == "" {
			return nil, unnamed(v, at)
		}
	}
	turn, err := d.begin(ctx, v.Project, name, req.Replace)
	if err != nil {
		return nil, err
	}
	var hidden string
	switch w, last := turn.row, turn.last; {
	case req.Replace:
	case last != nil && last.Retained != nil:
		hidden = fmt.Sprintf("workspace %s lies in a suspended machine, which desktop %s does not go on from", w.Name, v.Name)
	case w.Published != "" && w.Published != at.Ref:
		hidden = fmt.Sprintf("workspace %s is at checkpoint %s, which the disk of desktop %s does not go on from", w.Name, w.Published, v.Name)
	}
	if hidden == "" {
		return turn, nil
	}
	turn.leave()
	e := api.Errorf(api.CodeConflict, "%s", hidden)
	e.Hint = "publish under another name, or replace what is there"
	return nil, e
}

// unnamed asks for the name of a workspace. Who was cloned of somebody else goes on
// from what that one had, but its line is its own: it never takes the other's by
// default.
func unnamed(v api.Desktop, at store.Attachment) error {
	e := api.Errorf(api.CodeInvalid, "desktop %s has no workspace yet: name one", v.Name)
	if at.Ref != "" {
		e = api.Errorf(api.CodeInvalid, "desktop %s goes on from checkpoint %s of another one, and has no workspace of its own yet: name one", v.Name, at.Ref)
		e.Hint = "a new name begins a line of its own there; the other's name publishes in that, if it has not moved on"
	}
	return e
}

// taking is one checkpoint in progress.
type taking struct {
	d         *Desk
	desktop   api.Desktop
	machine   vm.Machine
	workspace store.Workspace
	at        store.Attachment // what the disk was; after run what it is
	// ids are the checkpoint's, and its second one when its parent was swept while
	// the first was written.
	ids []workspace.CheckpointID

	point  vm.SnapshotID
	frozen time.Duration // 0: the guest cannot freeze
}

// run stores the present instant; nobody has published it then.
func (t *taking) run(ctx context.Context) (c api.Checkpoint, err error) {
	began := t.d.cfg.Now().UTC()
	v, err := t.instant(ctx)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	m, full, err := t.write(ctx, v, began)
	if err != nil {
		return c, err
	}
	c = checkpointOf(t.workspace.Name, m, nil)
	c.Desktop, c.Full = t.desktop.ID, full
	c.Frozen, c.FrozenMS = t.frozen > 0, float64(t.frozen.Microseconds())/1000
	t.at = store.Attachment{Desktop: t.desktop.ID, Workspace: t.workspace.ID, Ref: c.Ref, Point: t.point}
	return c, nil
}

// write stores what the view shows. A parent that is not to be had any more costs
// only that all of the disk is stored again.
func (t *taking) write(ctx context.Context, v *vm.View, began time.Time) (*workspace.Manifest, string, error) {
	parent, why, err := t.parent(ctx)
	if err != nil {
		return nil, "", err
	}
	full := v.Full
	if parent == nil {
		full = why
	}
	for i := 0; ; i++ {
		id := t.ids[i]
		req := checkpoint.Request{
			Ref: workspace.Ref{Workspace: workspace.ID(t.workspace.ID), Checkpoint: id}, Parent: parent,
			Source: v.Disk, Size: v.Bytes, Base: v.Base, Created: began, Holder: string(id),
		}
		for _, e := range v.Changed {
			req.Changed = append(req.Changed, workspace.Extent(e))
		}
		m, err := t.d.chunks.Write(ctx, req)
		if parent != nil && i+1 < len(t.ids) && (errors.Is(err, workspace.ErrCondemned) || errors.Is(err, workspace.ErrMissing)) {
			parent, full = nil, "the checkpoint before it was dropped meanwhile"
			continue
		}
		return m, full, err
	}
}

// parent loads the checkpoint that the disk was at its point; nil, with the
// reason, when there is none to build on.
func (t *taking) parent(ctx context.Context) (*workspace.Manifest, string, error) {
	if t.at.Ref == "" {
		return nil, "the disk is no checkpoint's", nil
	}
	ref, err := parse(t.at.Ref)
	if err != nil {
		return nil, "", err
	}
	m, err := workspace.Load(ctx, t.d.cfg.Blobs.Objects, ref)
	if damage, ok := errors.AsType[*workspace.DamageError](err); ok {
		return nil, damage.Error(), nil
	}
	return m, "", err
}

// instant freezes the guest's file system, takes a view of the disk, and thaws.
// One that thawed by itself in between is taken again, once.
func (t *taking) instant(ctx context.Context) (*vm.View, error) {
	viewer, ok := t.d.cfg.Provider.(vm.Viewer)
	if !ok {
		return nil, fmt.Errorf("read the disk of desktop %s: %w", t.desktop.Name, errors.ErrUnsupported)
	}
	l, err := t.d.cfg.Guest(ctx, t.desktop.Project, t.desktop.ID)
	if err != nil {
		return nil, err
	}
	freezer, err := able(ctx, l)
	if err != nil {
		return nil, err
	}
	for range 2 {
		t.point = vm.SnapshotID(token.NewID('p'))
		v, held, err := t.still(ctx, viewer, freezer)
		if err != nil || held {
			return v, err
		}
		if err := v.Close(); err != nil {
			return nil, err
		}
	}
	return nil, api.Errorf(api.CodeDeadline, "the guest of desktop %s did not stand still for long enough", t.desktop.Name)
}

// able is how to freeze the guest; nil when it cannot.
func able(ctx context.Context, l *live.Desktop) (live.Freezer, error) {
	hello, err := l.Link.Hello(ctx)
	if err != nil {
		return nil, err
	}
	f, ok := l.Link.(live.Freezer)
	if !ok || !slices.Contains(hello.Capabilities, "freeze") {
		return nil, nil //nolint:nilnil // it is no error not to be able to
	}
	return f, nil
}

// still takes one view. held says that nothing was written meanwhile.
func (t *taking) still(ctx context.Context, viewer vm.Viewer, f live.Freezer) (v *vm.View, held bool, err error) {
	spec := vm.ViewSpec{Point: t.point, Since: t.at.Point}
	if f == nil {
		v, err = viewer.View(ctx, t.machine, spec)
		return v, true, err
	}
	scale := t.machine.Info().Accelerator.TimeoutScale()
	fctx, cancel := context.WithTimeout(ctx, freezeLimit*time.Duration(scale))
	defer cancel()
	if _, err := f.Freeze(fctx, guest.FreezeParams{ID: string(t.point), For: freezeFor}); err != nil {
		return nil, false, err
	}
	began := time.Now()
	vctx, stop := context.WithTimeout(ctx, freezeFor)
	defer stop()
	v, err = viewer.View(vctx, t.machine, spec)
	tctx, done := context.WithTimeout(context.WithoutCancel(ctx), thawLimit*time.Duration(scale))
	defer done()
	held, terr := f.Thaw(tctx, string(t.point))
	t.frozen = time.Since(began)
	if err == nil && terr != nil {
		err = errors.Join(terr, v.Close())
	}
	if err != nil {
		return nil, false, err
	}
	return v, held, nil
}
