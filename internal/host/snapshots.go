package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/portable"
	"github.com/deskfork/deskfork/internal/host/request"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Snapshots are the sealed instants of desktops.
type Snapshots struct{ h *Host }

// Create seals the present instant of a desktop under a name and keeps it over
// restarts of the host. A repeated key answers what it made.
func (s *Snapshots) Create(ctx context.Context, project, ref string, req api.CreateSnapshot, key string) (api.Snapshot, error) {
	d, err := s.h.present(project, ref)
	if err != nil {
		return api.Snapshot{}, err
	}
	k, err := once.Key(project, key, "snapshot "+d.ID, req)
	if err != nil {
		return api.Snapshot{}, err
	}
	var made api.Snapshot
	id, err := s.h.keys.Do(ctx, k, func() (string, error) {
		made, err = s.create(ctx, d, req, k)
		return made.ID, err
	})
	if err != nil || made.ID != "" {
		return made, err
	}
	return s.Get(ctx, project, id)
}

func (s *Snapshots) create(ctx context.Context, d *desk.Desktop, req api.CreateSnapshot, key *store.Key) (api.Snapshot, error) {
	if req.Name == "" {
		return api.Snapshot{}, api.Errorf(api.CodeInvalid, "a snapshot needs a name")
	}
	if d.View().State == api.StateSuspended {
		e := api.Errorf(api.CodePrecondition, "desktop %s is suspended", d.View().Name)
		e.Hint = "resume it first, or fork it"
		return api.Snapshot{}, e
	}
	if err := s.free(ctx, d.Project, req.Name); err != nil { // before anything stands still for it
		return api.Snapshot{}, err
	}
	made, sealed, err := d.Seal(ctx, vm.SnapshotSpec{ID: vm.SnapshotID(token.NewID('s')), Keep: true})
	if err != nil {
		return api.Snapshot{}, fault.At("snapshot", err)
	}
	snap := store.Describe(made, sealed, store.KindSnapshot)
	snap.Name = req.Name
	return s.keep(ctx, snap, key)
}

func (s *Snapshots) free(ctx context.Context, project, name string) error {
	_, err := s.h.store.Snapshot(ctx, project, name)
	if err == nil {
		return fmt.Errorf("make snapshot %s: %w", name, store.ErrTaken)
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// keep writes down what the provider has; if that fails, nothing is left.
func (s *Snapshots) keep(ctx context.Context, snap store.Snapshot, key *store.Key) (api.Snapshot, error) {
	if err := s.h.store.InsertSnapshot(ctx, snap, nil, key); err != nil {
		return api.Snapshot{}, errors.Join(err, s.removeFiles(context.WithoutCancel(ctx), snap.ID))
	}
	s.h.events.Publish(snap.Project, event.TypeSnapshotCreated, snap.Desktop, map[string]any{
		"snapshot": snap.ID, "name": snap.Name, "pause_ms": snap.PauseMS,
	})
	return snap.Snapshot, nil
}

func (s *Snapshots) removeFiles(ctx context.Context, id string) error {
	p, err := s.h.env.Snapshotter()
	if err != nil {
		return err
	}
	return p.RemoveSnapshot(ctx, vm.SnapshotID(id))
}

// List lists the snapshots of a project and the boot snapshots of all, newest
// first; those of all projects when it is empty.
func (s *Snapshots) List(ctx context.Context, project string) ([]api.Snapshot, error) {
	if err := s.h.whenReady(); err != nil {
		return nil, err
	}
	rows, err := s.h.store.Snapshots(ctx)
	if err != nil {
		return nil, err
	}
	used := s.used()
	list := []api.Snapshot{}
	for _, row := range rows {
		if project == "" || row.Project == project || row.Kind == store.KindBoot {
			row.UsedBy = used[row.ID]
			list = append(list, row.Snapshot)
		}
	}
	return list, nil
}

// used counts the desktops that stand on each snapshot.
func (s *Snapshots) used() map[string]int {
	n := map[string]int{}
	for _, d := range s.h.all() {
		r := d.Row()
		on := []string{r.Snapshot, r.Asleep}
		if _, m, _ := d.Parts(); m != nil {
			on = append(on, string(m.Info().Snapshot), string(m.Info().Template))
		}
		slices.Sort(on)
		for _, id := range slices.Compact(on) {
			n[id]++
		}
	}
	return n
}

// Get describes one snapshot by id or name.
func (s *Snapshots) Get(ctx context.Context, project, ref string) (api.Snapshot, error) {
	row, err := s.find(ctx, project, ref)
	row.UsedBy = s.used()[row.ID]
	return row.Snapshot, err
}

func (s *Snapshots) find(ctx context.Context, project, ref string) (store.Snapshot, error) {
	if err := s.h.whenReady(); err != nil {
		return store.Snapshot{}, err
	}
	row, err := s.h.store.Snapshot(ctx, project, ref)
	if errors.Is(err, store.ErrNotFound) {
		return store.Snapshot{}, fault.NotFound("snapshot", ref)
	}
	return row, err
}

// Remove removes a snapshot; desktops that were made of it go on.
func (s *Snapshots) Remove(ctx context.Context, project, ref string) error {
	row, err := s.find(ctx, project, ref)
	if err != nil {
		return err
	}
	switch row.Kind {
	case store.KindBoot:
		s.h.boots.Drop(ctx, row)
		return nil
	case store.KindSuspended:
		e := api.Errorf(api.CodePrecondition, "snapshot %s is the memory of suspended desktop %s", row.ID, row.Desktop)
		e.Hint = "resume or delete the desktop"
		return e
	}
	if err := s.h.store.BurySnapshot(ctx, row.ID, nil, s.h.cfg.Now()); err != nil {
		return err
	}
	s.h.events.Publish(project, event.TypeSnapshotRemoved, row.Desktop, map[string]any{"snapshot": row.ID, "name": row.Name})
	// It is gone for everybody; files that stay now are removed at the next start.
	return s.removeFiles(context.WithoutCancel(ctx), row.ID)
}

func (s *Snapshots) porter() (vm.Porter, error) {
	p, ok := s.h.cfg.Provider.(vm.Porter)
	if !ok {
		return nil, api.Errorf(api.CodeUnsupported, "this host's provider of machines cannot export snapshots")
	}
	return p, nil
}

// Export writes a snapshot to w as one stream, which Import reads. It holds all
// the memory that the desktop had: passwords and tokens in it too.
func (s *Snapshots) Export(ctx context.Context, project, ref string, w io.Writer) error {
	p, err := s.porter()
	if err != nil {
		return err
	}
	row, err := s.find(ctx, project, ref)
	if err != nil {
		return err
	}
	if err := portable.Write(w, row); err != nil {
		return err
	}
	return p.Export(ctx, vm.SnapshotID(row.ID), w)
}

// Import reads what Export wrote, here or elsewhere, and keeps it under a name.
// The image that it stands on must be here.
func (s *Snapshots) Import(ctx context.Context, project, name string, r io.Reader) (api.Snapshot, error) {
	p, err := s.porter()
	if err != nil {
		return api.Snapshot{}, err
	}
	if err := s.h.whenReady(); err != nil {
		return api.Snapshot{}, err
	}
	if name == "" {
		return api.Snapshot{}, api.Errorf(api.CodeInvalid, "a snapshot needs a name")
	}
	if err := s.free(ctx, project, name); err != nil {
		return api.Snapshot{}, err
	}
	row, err := portable.Read(r)
	if err != nil {
		return api.Snapshot{}, err
	}
	img, letGo, err := s.h.Shelf.Hold(ctx, row.ImageDigest)
	if err != nil {
		e := *fault.From(err)
		e.Detail = "the snapshot stands on an image that is not here: " + e.Detail
		return api.Snapshot{}, &e
	}
	defer letGo()
	id := vm.SnapshotID(token.NewID('s'))
	got, err := p.Import(ctx, id, img.System, r)
	if err != nil {
		return api.Snapshot{}, err
	}
	row.Sealed.Source.Snapshot, row.Sealed.Desktop.Project, row.Sealed.Host = id, project, got.Host
	snap := store.Describe(vm.Sealed{Snapshot: got}, row.Sealed, store.KindSnapshot)
	snap.Name, snap.Project, snap.Desktop, snap.PauseMS = name, project, "", row.PauseMS
	return s.keep(ctx, snap, nil)
}

// createFrom is create for a clone of a named snapshot.
func (h *Host) createFrom(ctx context.Context, project string, req api.CreateDesktop, key *store.Key) (api.Desktop, error) {
	snap, err := h.Snapshots.find(ctx, project, req.Snapshot)
	if err != nil {
		return api.Desktop{}, err
	}
	was := snap.Sealed.Desktop
	if err := cloneable(snap); err != nil {
		return api.Desktop{}, err
	}
	if snap.Kind == store.KindSuspended {
		return api.Desktop{}, api.Errorf(api.CodePrecondition, "snapshot %s is the memory of a suspended desktop: fork that", snap.ID)
	}
	if req.Shape != "" && req.Shape != was.Shape {
		return api.Desktop{}, api.Errorf(api.CodeInvalid, "the snapshot has shape %s: a clone cannot have %s", was.Shape, req.Shape)
	}
	if snap.Sealed.Source.Mounted && req.WorkspaceMiB != 0 && req.WorkspaceMiB != was.WorkspaceMiB {
		return api.Desktop{}, api.Errorf(api.CodeInvalid, "the snapshot's workspace has %d MiB: a clone cannot have %d", was.WorkspaceMiB, req.WorkspaceMiB)
	}
	_, letGo, err := h.Shelf.Hold(ctx, was.ImageDigest)
	if err != nil {
		return api.Desktop{}, err
	}
	defer letGo()
	s, err := h.env.Snapshotter()
	if err != nil {
		return api.Desktop{}, err
	}
	v := h.descendant(was, req.Name)
	v.Project, v.Origin, v.Snapshot = project, api.OriginSnapshot, snap.ID
	v.Labels, v.Env = req.Labels, request.Merged(v.Env, req.Env)
	v.Keyboard, v.Network = cmp.Or(req.Keyboard, v.Keyboard), cmp.Or(req.Network, v.Network)
	v.WorkspaceMiB = cmp.Or(req.WorkspaceMiB, v.WorkspaceMiB)
	if req.Display != nil {
		v.Display = *req.Display
	}
	setPolicy(&v, req.Policy)
	src := snap.Sealed.Source
	row := store.Desktop{Desktop: v, LinkToken: token.New(), GuestUser: snap.Sealed.GuestUser, Source: &src, Attached: snap.Sealed.Attached}
	need := admission.Need{OwnMiB: snap.OwnMiB(), DiskMiB: v.WorkspaceMiB, Clone: true}
	return h.admit(ctx, admitted{need: need, row: row, key: key, begin: func(ctx context.Context, d *desk.Desktop) error {
		return d.Clone(ctx, src, s.Clone, func() {})
	}})
}

// cloneable refuses a snapshot that is known to be damaged.
func cloneable(snap store.Snapshot) error {
	if snap.Fault == "" {
		return nil
	}
	e := api.Errorf(api.CodeImageCorrupt, "snapshot %s cannot be cloned: %s", cmp.Or(snap.Name, snap.ID), snap.Fault)
	e.Hint = "remove it, and make another"
	return e
}

// present finds a desktop for a call that changes it.
func (h *Host) present(project, ref string) (*desk.Desktop, error) {
	if err := h.whenReady(); err != nil {
		return nil, err
	}
	return h.find(project, ref)
}
