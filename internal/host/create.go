package host

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/pool"
	"github.com/deskfork/deskfork/internal/host/request"
	"github.com/deskfork/deskfork/internal/host/seal"
	"github.com/deskfork/deskfork/internal/host/shelf"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Defaults of a desktop.
const (
	DefaultShape        = "medium"
	defaultKeyboard     = "us"
	defaultUser         = "agent"
	defaultWorkspaceMiB = 10240
)

// Create admits a desktop and begins to start it. A repeated key answers the
// desktop that it made, whatever has become of it since.
func (h *Host) Create(ctx context.Context, project string, req api.CreateDesktop, key string) (api.Desktop, error) {
	if err := h.whenReady(); err != nil {
		return api.Desktop{}, err
	}
	k, err := once.Key(project, key, "desktop", req)
	if err != nil {
		return api.Desktop{}, err
	}
	var made api.Desktop
	id, err := h.keys.Do(ctx, k, func() (string, error) {
		var err error
		if made, err = h.create(ctx, project, req, k); err != nil {
			return "", err
		}
		return made.ID, nil
	})
	if err != nil || made.ID != "" {
		return made, err
	}
	return h.Desktop(ctx, project, id)
}

func (h *Host) create(ctx context.Context, project string, req api.CreateDesktop, key *store.Key) (api.Desktop, error) {
	if err := request.Create(req); err != nil {
		return api.Desktop{}, err
	}
	if req.Snapshot != "" {
		return h.createFrom(ctx, project, req, key)
	}
	img, letGo, err := h.Shelf.Hold(ctx, req.Image)
	if err != nil {
		return api.Desktop{}, err
	}
	defer letGo() // the desktop in the host's list holds it from then on
	shape, ok := vm.ShapeNamed(cmp.Or(req.Shape, DefaultShape))
	if !ok {
		return api.Desktop{}, api.Errorf(api.CodeInvalid, "unknown shape %q", req.Shape)
	}
	plan, err := h.Workspaces.Plan(ctx, project, req)
	if err != nil {
		return api.Desktop{}, err
	}
	row := store.Desktop{Desktop: h.newView(project, req, img), LinkToken: token.New(), GuestUser: cmp.Or(img.User, defaultUser)}
	row.WorkspaceMiB = plan.MiB(row.WorkspaceMiB)
	snap, sealed, err := h.boots.Ready(ctx, img.Digest, shape.Name)
	if err != nil {
		return api.Desktop{}, err
	}
	need := admission.Need{
		MemoryMiB: int64(shape.MemoryMiB), DiskMiB: row.WorkspaceMiB + img.Virtual>>20, Clone: sealed && !req.Cold,
	}
	boot := func(ctx context.Context, d *desk.Desktop) error {
		return plan.Run(ctx, d, func() error { return h.boot(ctx, d, bootable(img, shape), need, req.Cold) })
	}
	if need.Clone && plan == nil {
		kind := pool.Kind{Snapshot: vm.SnapshotID(snap.ID), Network: vm.NetworkMode(row.Network), WorkspaceMiB: row.WorkspaceMiB}
		if spare := h.pool.Take(kind); spare != nil {
			row.NotParked = snap.NotParked
			return h.claim(ctx, spare, admitted{need: need, row: row, key: key, begin: boot})
		}
	}
	return h.admit(ctx, admitted{need: need, row: row, key: key, begin: boot})
}

// claim makes a spare the desktop that was asked for.
func (h *Host) claim(ctx context.Context, spare *desk.Spare, a admitted) (api.Desktop, error) {
	unnamed := a.row.Name == a.row.ID
	spare.Identity(&a.row)
	if unnamed {
		a.row.Name = a.row.ID
	}
	a.row.Snapshot = string(spare.Snapshot())
	boot := a.begin
	a.spare = spare
	a.begin = func(ctx context.Context, d *desk.Desktop) error {
		err := spare.Claim(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		// It has lost its machine, and starts as if there were no pool.
		h.cfg.Logger.Warn("spare desktop was not sound; another is made", "desktop", d.ID, "err", err)
		d.Update(ctx, func(r *store.Desktop) {
			r.Incarnation, r.Stages, r.Source = token.NewID('i'), r.Stages[:min(1, len(r.Stages))], nil
			r.NotParked = ""
		})
		return boot(ctx, d)
	}
	v, err := h.admit(ctx, a)
	if err != nil {
		h.pool.Return(ctx, spare)
	}
	return v, err
}

// admitted is a desktop that is about to be written down and begun.
type admitted struct {
	need  admission.Need
	row   store.Desktop
	key   *store.Key
	spare *desk.Spare // nil: it has nothing yet
	begin func(context.Context, *desk.Desktop) error
}

// admit reserves room for a desktop, writes it down and spawns its actor.
func (h *Host) admit(ctx context.Context, a admitted) (api.Desktop, error) {
	release, err := h.ledger.Reserve(a.need)
	if err != nil {
		return api.Desktop{}, fault.At(string(api.StageAdmission), err)
	}
	if err := h.store.Insert(ctx, a.key, a.row); err != nil {
		release()
		return api.Desktop{}, err
	}
	var d *desk.Desktop
	if a.spare != nil {
		d = a.spare.Desktop(a.row)
	} else {
		d = desk.New(h.env, a.row, nil)
	}
	d.Publish(event.TypeCreated, map[string]any{"name": a.row.Name, "image": a.row.ImageDigest})
	err = h.spawn(d, func(ctx context.Context) error { //nolint:contextcheck // an actor lives under the host's own context
		defer release()
		return a.begin(ctx, d)
	})
	if err != nil {
		release()
		// The row is found without a machine at the next start, and says so.
		return api.Desktop{}, err
	}
	return d.View(), nil
}

// room says whether a spare desktop finds memory.
func (h *Host) room() bool {
	release, err := h.ledger.Reserve(admission.Need{DiskMiB: defaultWorkspaceMiB, Clone: true})
	if err != nil {
		return false
	}
	release()
	return true
}

// bootable is an image in the words of who boots it.
func bootable(img shelf.Image, shape vm.Shape) seal.Image {
	return seal.Image{
		Image: desk.Image{Boot: img.Boot, System: img.System, Shape: shape},
		Name:  cmp.Or(img.Name, img.Digest), Digest: img.Digest, DiskMiB: img.Virtual >> 20, Display: img.Display,
		Keyboard: cmp.Or(img.Keyboard, defaultKeyboard), User: cmp.Or(img.User, defaultUser), WorkspaceMiB: defaultWorkspaceMiB, Park: img.Park,
	}
}

// boot starts a new desktop: a clone of the image's boot snapshot, or a boot where
// that cannot be, which is then said.
func (h *Host) boot(ctx context.Context, d *desk.Desktop, img seal.Image, need admission.Need, cold bool) error {
	if cold {
		return d.Cold(ctx, img.Image, "")
	}
	reason, err := h.cloneBoot(ctx, d, img, true)
	if err != nil || reason == "" {
		return err
	}
	d.Note("a cold boot: " + reason)
	defer d.Note("")
	if need.Clone { // a boot needs all of it
		need.Clone = false
		release, err := h.ledger.Reserve(need)
		if err != nil {
			return fault.At(string(api.StageAdmission), err)
		}
		defer release()
	}
	return d.Cold(ctx, img.Image, reason)
}

// cloneBoot clones the boot snapshot. The reason says why there must be a boot
// instead.
func (h *Host) cloneBoot(ctx context.Context, d *desk.Desktop, img seal.Image, again bool) (reason string, err error) {
	snap, err := h.boots.Get(ctx, img, d.Note)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return fault.From(err).Detail, nil
	}
	s, err := h.env.Snapshotter()
	if err != nil {
		return "", err
	}
	src := snap.Sealed.Source
	d.Update(ctx, func(r *store.Desktop) {
		r.Origin, r.Snapshot, r.Source, r.NotParked = api.OriginTemplate, snap.ID, &src, snap.NotParked
	})
	err = d.Clone(ctx, src, s.Clone, func() {})
	switch {
	case err == nil, ctx.Err() != nil:
		return "", err
	case errors.Is(err, vm.ErrCorrupt), errors.Is(err, vm.ErrNotFound):
		h.cfg.Logger.Error("boot snapshot is damaged: it is removed and made anew", "snapshot", snap.ID, "err", err)
		h.boots.Drop(ctx, snap)
		if again {
			return h.cloneBoot(ctx, d, img, false)
		}
		return fault.From(err).Detail, nil
	case errors.Is(err, vm.ErrHostClass):
		h.boots.Drop(ctx, snap)
		return fault.From(err).Detail, nil
	}
	return "", err
}

// SealBoot makes the boot snapshot of an image, unless there is one that may
// stay.
func (h *Host) SealBoot(ctx context.Context, image string, req api.SealImage) (api.Snapshot, error) {
	if err := h.whenReady(); err != nil {
		return api.Snapshot{}, err
	}
	img, letGo, err := h.Shelf.Hold(ctx, image)
	if err != nil {
		return api.Snapshot{}, err
	}
	defer letGo()
	s, ok := vm.ShapeNamed(cmp.Or(req.Shape, DefaultShape))
	if !ok {
		return api.Snapshot{}, api.Errorf(api.CodeInvalid, "unknown shape %q", req.Shape)
	}
	if req.Again {
		snap, err := h.boots.Again(ctx, bootable(img, s))
		return snap.Snapshot, err
	}
	snap, err := h.boots.Get(ctx, bootable(img, s), func(string) {})
	return snap.Snapshot, err
}

// newView is a desktop that was admitted just now.
func (h *Host) newView(project string, req api.CreateDesktop, img shelf.Image) api.Desktop {
	id := token.NewID('d')
	now := h.cfg.Now().UTC()
	display := img.Display
	if req.Display != nil {
		display = *req.Display
	}
	v := api.Desktop{
		ID: id, Name: cmp.Or(req.Name, id), Project: project,
		Image: req.Image, ImageDigest: img.Digest, Shape: cmp.Or(req.Shape, DefaultShape),
		Labels: req.Labels, Env: req.Env, Display: display,
		Keyboard: cmp.Or(req.Keyboard, cmp.Or(img.Keyboard, defaultKeyboard)),
		Network:  cmp.Or(req.Network, string(vm.NetworkOpen)), WorkspaceMiB: cmp.Or(req.WorkspaceMiB, defaultWorkspaceMiB),
		State: api.StateStarting, Incarnation: token.NewID('i'), Created: now, Started: now,
		Stages: []api.StageTime{{Stage: api.StageAdmission, Reached: now}},
	}
	setPolicy(&v, req.Policy)
	return v
}

// setPolicy gives a desktop another policy.
func setPolicy(v *api.Desktop, p api.Policy) {
	v.Policy, v.Expires = p, time.Time{}
	if p.TTLS > 0 {
		v.Expires = v.Created.Add(time.Duration(p.TTLS) * time.Second)
	}
}
