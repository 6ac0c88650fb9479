// Package workspaces keeps the files of desktops in the blob store: it takes
// checkpoints of running desktops, publishes them in the database, and rebuilds
// disks from them.
package workspaces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/internal/x/turns"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob/dir"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

// Names in the data directory.
const (
	BlobsDir   = "blobs"
	restoreDir = "restore" // disks that are being rebuilt
)

// Blobs is where checkpoints lie. The zero value is a directory in the data
// directory, without encryption.
type Blobs struct {
	Objects workspace.Objects
	Key     []byte // for hashes, where Objects are encrypted
}

// Config of a Desk. All members but Blobs are required.
type Config struct {
	Blobs    Blobs
	DataDir  string
	Fences   Fences
	Store    store.Workspaces
	Keys     *once.Keys
	Provider vm.Provider
	// Guest finds a desktop's live parts, Machine what it is and has.
	Guest   func(ctx context.Context, project, ref string) (*live.Desktop, error)
	Machine func(project, ref string) (api.Desktop, vm.Machine, error)
	Now     func() time.Time
	Logger  *slog.Logger
}

// Desk is the use cases of workspaces. Safe for concurrent use.
type Desk struct {
	cfg    Config
	chunks *checkpoint.Store
	close  func() error

	busy turns.Turns // of desktops of which a checkpoint is taken
}

// Open opens the store, and removes what an earlier run was rebuilding.
func Open(cfg Config) (*Desk, error) {
	d := &Desk{cfg: cfg, close: func() error { return nil }}
	if cfg.Blobs.Objects == nil {
		s, err := dir.Open(filepath.Join(cfg.DataDir, BlobsDir))
		if err != nil {
			return nil, fmt.Errorf("open blob store: %w", err)
		}
		d.cfg.Blobs.Objects, d.close = s, s.Close
	}
	d.chunks = &checkpoint.Store{Objects: d.cfg.Blobs.Objects, Key: cfg.Blobs.Key}
	tmp := filepath.Join(cfg.DataDir, restoreDir)
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o700)); err != nil {
		return nil, errors.Join(fmt.Errorf("make directory of restores: %w", err), d.close())
	}
	return d, nil
}

// Close lets go of the store. No call is in progress.
func (d *Desk) Close() error { return d.close() }

func view(w store.Workspace) api.Workspace {
	return api.Workspace{ID: w.ID, Name: w.Name, Project: w.Project, Published: w.Published, Created: w.Created}
}

// List lists the workspaces of a project by name.
func (d *Desk) List(ctx context.Context, project string) ([]api.Workspace, error) {
	all, err := d.cfg.Store.List(ctx, project)
	out := make([]api.Workspace, 0, len(all))
	for _, w := range all {
		out = append(out, view(w))
	}
	return out, err
}

// Log lists what was published in a workspace, newest first.
func (d *Desk) Log(ctx context.Context, project, ref string) ([]api.Checkpoint, error) {
	w, err := d.find(ctx, project, ref)
	if err != nil {
		return nil, err
	}
	return d.cfg.Store.Checkpoints(ctx, w.ID)
}

// find finds a workspace by name or id.
func (d *Desk) find(ctx context.Context, project, ref string) (store.Workspace, error) {
	w, err := d.cfg.Store.Find(ctx, project, ref)
	if errors.Is(err, store.ErrNotFound) {
		err = fault.NotFound("workspace", ref)
	}
	return w, err
}

// parse reads "workspace/checkpoint".
func parse(word string) (workspace.Ref, error) {
	r, rest, err := workspace.RefOf(word, "")
	if err == nil && rest != "" {
		err = fmt.Errorf("%w: checkpoint %q", workspace.ErrInvalid, word)
	}
	return r, err
}

// resolve finds the checkpoint that W, or W@CHECKPOINT, names in a project. A
// checkpoint is named by what comes behind its workspace in the store, or by all.
func (d *Desk) resolve(ctx context.Context, project, word string) (store.Workspace, workspace.Ref, error) {
	name, which, chosen := strings.Cut(word, "@")
	w, err := d.find(ctx, project, name)
	if err != nil {
		return w, workspace.Ref{}, err
	}
	if !chosen {
		if w.Published == "" {
			return w, workspace.Ref{}, api.Errorf(api.CodePrecondition, "workspace %s has no checkpoint yet", w.Name)
		}
		r, err := parse(w.Published)
		return w, r, err
	}
	all, err := d.cfg.Store.Checkpoints(ctx, w.ID)
	if err != nil {
		return w, workspace.Ref{}, err
	}
	for _, c := range all {
		if _, short, _ := strings.Cut(c.Ref, "/"); c.Ref == which || short == which {
			r, err := parse(c.Ref)
			return w, r, err
		}
	}
	return w, workspace.Ref{}, api.Errorf(api.CodeNotFound, "workspace %s has no checkpoint %q", w.Name, which)
}

// Manifest loads what W, or W@CHECKPOINT, names.
func (d *Desk) Manifest(ctx context.Context, project, word string) (*workspace.Manifest, error) {
	_, ref, err := d.resolve(ctx, project, word)
	if err != nil {
		return nil, err
	}
	return workspace.Load(ctx, d.cfg.Blobs.Objects, ref)
}

// Vacant refuses a name whose workspace has a checkpoint already.
func (d *Desk) Vacant(ctx context.Context, project, name string) error {
	w, err := d.cfg.Store.Find(ctx, project, name)
	if errors.Is(err, store.ErrNotFound) || err == nil && w.Published == "" {
		return nil
	}
	if err == nil {
		e := api.Errorf(api.CodeConflict, "workspace %s is at checkpoint %s", w.Name, w.Published)
		e.Hint = "choose another name, or replace what is there"
		err = e
	}
	return err
}

// Clone makes a workspace that begins with a checkpoint of another one. Nothing
// is copied.
func (d *Desk) Clone(ctx context.Context, project, from string, req api.CloneWorkspace) (api.Workspace, error) {
	if req.Checkpoint != "" {
		from += "@" + req.Checkpoint
	}
	src, ref, err := d.resolve(ctx, project, from)
	if err != nil {
		return api.Workspace{}, err
	}
	all, err := d.cfg.Store.Checkpoints(ctx, src.ID)
	if err != nil {
		return api.Workspace{}, err
	}
	w := store.Workspace{ID: token.NewID('w'), Project: project, Name: req.Name, Created: d.cfg.Now().UTC()}
	if err := d.cfg.Store.Insert(ctx, w); err != nil {
		return api.Workspace{}, err
	}
	for _, c := range all {
		if c.Ref == ref.String() {
			if err := d.cfg.Store.Publish(ctx, store.Publication{Workspace: w.ID, Checkpoint: c}); err != nil {
				return api.Workspace{}, err
			}
		}
	}
	// It is a root of sweeps now. One that had begun before may have taken it.
	if err := workspace.Usable(ctx, d.cfg.Blobs.Objects, ref); err != nil {
		return api.Workspace{}, fmt.Errorf("clone workspace %s: %w", src.Name, err)
	}
	w.Published = ref.String()
	return view(w), nil
}

// Verify reads all of a checkpoint and names what is wrong with it.
func (d *Desk) Verify(ctx context.Context, project, word string) (api.Verified, error) {
	_, ref, err := d.resolve(ctx, project, word)
	if err != nil {
		return api.Verified{}, err
	}
	out := api.Verified{Ref: ref.String(), Damaged: []string{}}
	m, err := workspace.Load(ctx, d.cfg.Blobs.Objects, ref)
	if damage, ok := errors.AsType[*workspace.DamageError](err); ok {
		out.Damaged = append(out.Damaged, damage.Error())
		return out, nil
	}
	if err != nil {
		return out, err
	}
	all, err := d.chunks.Verify(ctx, m)
	for _, e := range all {
		out.Damaged = append(out.Damaged, e.Error())
	}
	out.OK = err == nil && len(all) == 0
	return out, err
}

// Prune removes what the policy does not keep, from the whole store.
func (d *Desk) Prune(ctx context.Context, req api.PruneWorkspaces) (api.Pruned, error) {
	if err := d.mark(ctx, req.DryRun); err != nil {
		return api.Pruned{}, err
	}
	s := retain.Sweeper{
		Objects: d.cfg.Blobs.Objects, Roots: roots{d.cfg.Store, d.cfg.Fences}, DryRun: req.DryRun,
		Policy: retain.Policy{Last: req.Last, Hourly: req.Hourly, Daily: req.Daily, Weekly: req.Weekly, Monthly: req.Monthly},
	}
	r, err := s.Sweep(ctx)
	if err != nil {
		return api.Pruned{}, err
	}
	missing, gone, err := d.missing(ctx, r.Unfounded)
	out := api.Pruned{Kept: r.Kept, Dropped: words(r.Dropped), Spared: words(r.Spared), Packs: r.Packs, Bytes: r.Bytes, Missing: words(missing)}
	if req.DryRun || err != nil {
		return out, err
	}
	for _, ref := range append(words(gone), out.Dropped...) {
		err = errors.Join(err, d.cfg.Store.Forget(ctx, ref))
	}
	return out, err
}

// mark notes in the store what this host has published and has not noted: where that
// failed, or before there were marks.
func (d *Desk) mark(ctx context.Context, dry bool) error {
	if dry {
		return nil
	}
	all, err := d.cfg.Store.Checkpoints(ctx, "")
	if err != nil {
		return err
	}
	marked := map[string]bool{}
	err = workspace.All(ctx, d.cfg.Blobs.Objects, workspace.PublishedPrefix, func(o workspace.Info) error {
		marked[strings.TrimPrefix(o.Key, workspace.PublishedPrefix)] = true
		return nil
	})
	for _, c := range all {
		if err == nil && !marked[c.Ref] {
			var ref workspace.Ref
			if ref, err = parse(c.Ref); err == nil {
				err = workspace.MarkPublished(ctx, d.cfg.Blobs.Objects, ref)
			}
		}
	}
	return err
}

// missing tells what is missing from what another host's sweep has dropped.
func (d *Desk) missing(ctx context.Context, refs []workspace.Ref) (missing, dropped []workspace.Ref, err error) {
	for _, r := range refs {
		switch err := workspace.Condemned(ctx, d.cfg.Blobs.Objects, r); {
		case err == nil:
			missing = append(missing, r)
		case errors.Is(err, workspace.ErrCondemned):
			dropped = append(dropped, r)
		default:
			return nil, nil, err
		}
	}
	return missing, dropped, nil
}

func words(refs []workspace.Ref) []string {
	out := make([]string, 0, len(refs))
	for _, r := range refs {
		out = append(out, r.String())
	}
	return out
}

// roots are what the databases say must stay.
type roots struct {
	db     store.Workspaces
	fences Fences
}

// Roots implements retain.Roots.
func (r roots) Roots(ctx context.Context) (published, pinned map[workspace.Ref]bool, err error) {
	published, pinned = map[workspace.Ref]bool{}, map[workspace.Ref]bool{}
	all, err := r.db.Checkpoints(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	for _, c := range all {
		ref, err := parse(c.Ref)
		if err != nil {
			return nil, nil, err
		}
		published[ref] = true
	}
	list, err := r.db.List(ctx, "")
	for _, w := range list {
		if w.Published == "" {
			continue
		}
		ref, perr := parse(w.Published)
		pinned[ref], err = true, errors.Join(err, perr)
	}
	current, ferr := r.fences.Publications(ctx)
	err = errors.Join(err, ferr)
	for _, p := range current { // this host's list may be behind
		if !isCheckpoint(p.Workspace) {
			continue
		}
		ref, perr := parse(p.Workspace.ID)
		pinned[ref], err = true, errors.Join(err, perr)
	}
	return published, pinned, err
}

// Publications lists what all sessions have published last.
func (d *Desk) Publications(ctx context.Context) ([]session.Publication, error) {
	return d.cfg.Fences.Publications(ctx)
}

// Blobs is where checkpoints lie, and what else belongs to sessions.
func (d *Desk) Blobs() Blobs { return d.cfg.Blobs }
