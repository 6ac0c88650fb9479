package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/once"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Defaults of a desktop.
const (
	defaultShape        = "medium"
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
		made, err = h.create(ctx, project, req, k)
		return made.ID, err
	})
	if err != nil || made.ID != "" {
		return made, err
	}
	return h.Desktop(ctx, project, id)
}

func (h *Host) create(ctx context.Context, project string, req api.CreateDesktop, key *store.Key) (api.Desktop, error) {
	if err := validateCreate(req); err != nil {
		return api.Desktop{}, err
	}
	img, letGo, err := h.resolve(ctx, req.Image)
	if err != nil {
		return api.Desktop{}, err
	}
	defer letGo() // the desktop in the host's list holds it from then on
	shape, ok := vm.ShapeNamed(cmp.Or(req.Shape, defaultShape))
	if !ok {
		return api.Desktop{}, api.Errorf(api.CodeInvalid, "unknown shape %q", req.Shape)
	}
	view := h.newView(project, req, img)
	release, err := h.ledger.Reserve(admission.Need{
		MemoryMiB: int64(shape.MemoryMiB), DiskMiB: view.WorkspaceMiB + img.Virtual>>20,
	})
	if err != nil {
		return api.Desktop{}, fault.At(string(api.StageAdmission), err)
	}
	row := store.Desktop{Desktop: view, LinkToken: token.New(), GuestUser: cmp.Or(img.User, defaultUser)}
	if err := h.store.Insert(ctx, row, key); err != nil {
		release()
		return api.Desktop{}, err
	}
	d := h.newDesktop(row)
	d.publish(event.TypeCreated, map[string]any{"name": view.Name, "image": view.ImageDigest})
	err = h.spawn(d, func(ctx context.Context) error { //nolint:contextcheck // an actor lives under the host's own context
		defer release()
		return d.start(ctx, img, shape)
	})
	if err != nil {
		release()
		// The row is found without a machine at the next start, and says so.
		return api.Desktop{}, err
	}
	return d.snapshot(), nil
}

// newView is a desktop that was admitted just now.
func (h *Host) newView(project string, req api.CreateDesktop, img Image) api.Desktop {
	id := token.NewID('d')
	now := h.cfg.Now().UTC()
	display := img.Display
	if req.Display != nil {
		display = *req.Display
	}
	size := req.WorkspaceMiB
	if size == 0 {
		size = defaultWorkspaceMiB
	}
	return api.Desktop{
		ID: id, Name: cmp.Or(req.Name, id), Project: project,
		Image: req.Image, ImageDigest: img.Digest, Shape: cmp.Or(req.Shape, defaultShape),
		Labels: req.Labels, Env: req.Env, Display: display,
		Keyboard: cmp.Or(req.Keyboard, cmp.Or(img.Keyboard, defaultKeyboard)),
		Network:  cmp.Or(req.Network, string(vm.NetworkOpen)), WorkspaceMiB: size,
		State: api.StateStarting, Incarnation: token.NewID('i'), Created: now, Started: now,
		Stages: []api.StageTime{{Stage: api.StageAdmission, Reached: now}},
	}
}

// start makes the machine and brings its desktop up.
func (d *desktop) start(ctx context.Context, img Image, shape vm.Shape) error {
	caps, err := d.host.cfg.Provider.Capabilities(ctx)
	if err != nil {
		return fault.At(string(api.StageMachine), err)
	}
	spec, err := d.spec(img, shape)
	if err != nil {
		return fault.At(string(api.StageMachine), err)
	}
	limits := d.host.cfg.Limits
	machineStep := boot.Step{Stage: api.StageMachine, Limit: limits.Machine, Run: func(ctx context.Context, note func(string)) error {
		note("the provider has not started the machine")
		m, err := d.host.cfg.Provider.Create(ctx, spec)
		if err != nil {
			return machineError(err)
		}
		d.setMachine(ctx, m)
		return nil
	}}
	scale := func() int { return caps.Accelerator.TimeoutScale() }
	if err := boot.Run(ctx, []boot.Step{machineStep}, scale, func(s api.Stage) { d.reached(ctx, s) }); err != nil {
		return err
	}
	_, m, _ := d.parts()
	return d.bringUp(ctx, m, func(p *openParts) []boot.Step {
		w := d.wish()
		return []boot.Step{
			boot.LinkStep(p.Desktop, limits),
			boot.HandshakeStep(p.Desktop, limits, w, d.host.cfg.Now),
			boot.SessionStep(p.Desktop, limits, w),
			boot.DrawnStep(p.Desktop, limits),
		}
	})
}

// machineError makes what a provider says without a code of its own a failure
// of the machine rather than a fault of ours.
func machineError(err error) error {
	e := fault.From(err)
	if e.Code != api.CodeInternal {
		return err
	}
	return fault.Stage(api.StageMachine, api.CodeMachineFailed, "%s", err)
}

func (d *desktop) setMachine(ctx context.Context, m vm.Machine) {
	d.mu.Lock()
	d.machine = m
	d.mu.Unlock()
	info := m.Info()
	d.update(ctx, func(v *api.Desktop) {
		v.Accelerator = string(info.Accelerator)
		v.Adopted = info.Adopted
		if !info.Started.IsZero() {
			v.Started = info.Started.UTC()
		}
	})
}

func (d *desktop) spec(img Image, shape vm.Shape) (vm.Spec, error) {
	v := d.snapshot()
	config, err := json.Marshal(guest.Config{Token: d.token})
	if err != nil {
		return vm.Spec{}, fmt.Errorf("encode guest config: %w", err)
	}
	return vm.Spec{
		ID: vm.ID(v.ID), Incarnation: vm.Incarnation(v.Incarnation), Shape: shape,
		Boot: img.Boot, System: img.System,
		Workspace: vm.Disk{SizeMiB: v.WorkspaceMiB, Label: "workspace"},
		Width:     v.Display.Width, Height: v.Display.Height,
		Network: vm.NetworkMode(v.Network), GuestConfig: config,
	}, nil
}

// waitLimit is how long a caller of Delete waits when its context says nothing.
const waitLimit = 2 * time.Minute

// Delete removes a desktop and returns when nothing is left of it. It may be
// called again; a desktop that is gone is no error, one that never was is.
func (h *Host) Delete(ctx context.Context, project, ref string) error {
	if err := h.whenReady(); err != nil {
		return err
	}
	d, err := h.find(project, ref)
	if err != nil {
		_, buried := h.store.Desktop(ctx, project, ref)
		if errors.Is(buried, store.ErrNotFound) {
			return err
		}
		return buried
	}
	d.mu.Lock()
	before := d.attempts
	d.mu.Unlock()
	d.requestDelete(ctx)
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	return d.awaitRemoval(ctx, before)
}

// awaitRemoval waits until the desktop is gone or an attempt after the one
// numbered before has failed.
func (d *desktop) awaitRemoval(ctx context.Context, before int) error {
	for {
		d.mu.Lock()
		changed, err, attempts := d.changed, d.destroyErr, d.attempts
		d.mu.Unlock()
		if isClosed(d.done) {
			return d.removed()
		}
		if attempts > before {
			return fault.At("delete", err)
		}
		select {
		case <-d.done:
		case <-changed:
		case <-ctx.Done():
			return fault.At("delete", ctx.Err())
		}
	}
}

// removed says, once the actor has ended, whether it removed the desktop or was
// stopped before.
func (d *desktop) removed() error {
	if _, err := d.host.find(d.project, d.id); err != nil {
		return nil //nolint:nilerr // what cannot be found is gone
	}
	e := api.Errorf(api.CodeGuestUnavail, "the host is stopping; desktop %s is removed when it starts again", d.id)
	e.Stage = "delete"
	return e
}
