package seal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/desk"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

const (
	// stillFor is how long a screen has not changed when it is sealed: what moves
	// then moves in every clone.
	stillFor = 2 * time.Second
	// endLimit bounds the removal of the machine that was sealed.
	endLimit = time.Minute
)

// build boots a machine that nobody sees, and seals it. It is found without a
// desktop, and removed, by the next run if this one ends on the way.
//
// tell hears of each stage.
func (m *Maker) build(ctx context.Context, img Image, tell func(string)) (snap store.Snapshot, err error) {
	s, err := m.env.Snapshotter()
	if err != nil {
		return snap, err
	}
	release, err := m.env.Reserve(admission.Need{MemoryMiB: int64(img.Shape.MemoryMiB), DiskMiB: img.DiskMiB})
	if err != nil {
		return snap, err
	}
	defer release()
	secret := token.New()
	spec := vm.Spec{
		ID: vm.ID(token.NewID('b')), Incarnation: vm.Incarnation(token.NewID('i')), Shape: img.Shape,
		Boot: img.Boot, System: img.System, Workspace: vm.Disk{SizeMiB: img.WorkspaceMiB, Label: desk.WorkspaceLabel},
		Width: img.Display.Width, Height: img.Display.Height, Network: vm.NetworkOpen, GuestConfig: desk.GuestConfig(secret),
	}
	began := m.env.Now()
	reached := func(what string) { tell(fmt.Sprintf("%s (%.0f s)", what, m.env.Now().Sub(began).Seconds())) }
	cctx, cancel := context.WithTimeout(ctx, m.scaled(ctx, m.env.Cold.Machine))
	defer cancel()
	machine, err := m.env.Provider.Create(cctx, spec)
	if err != nil {
		return snap, err
	}
	defer func() {
		dctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
		defer cancel()
		if derr := machine.Destroy(dctx); derr != nil {
			m.env.Logger.Error("machine of a boot snapshot not destroyed", "incarnation", spec.Incarnation, "err", derr)
		}
	}()
	reached("the machine runs")
	if err := m.raise(ctx, machine, raising{spec: spec, img: img, secret: secret, reached: reached}); err != nil {
		return snap, desk.WithLog(err, machine)
	}
	reached("it is written to disk")
	made, err := s.Snapshot(ctx, machine, vm.SnapshotSpec{ID: vm.SnapshotID(token.NewID('t')), Keep: true})
	if err != nil {
		return snap, err
	}
	snap = store.Describe(made, m.sealed(img, made, secret), store.KindBoot)
	if err := m.env.Store.InsertSnapshot(ctx, snap, nil, nil); err != nil {
		return snap, errors.Join(err, s.RemoveSnapshot(context.WithoutCancel(ctx), made.ID))
	}
	return snap, nil
}

func (m *Maker) scaled(ctx context.Context, limit time.Duration) time.Duration {
	caps, err := m.env.Provider.Capabilities(ctx)
	if err != nil {
		return limit
	}
	return limit * time.Duration(max(caps.Accelerator.TimeoutScale(), 1))
}

// raising is what a machine is brought up by.
type raising struct {
	spec    vm.Spec
	img     Image
	secret  string
	reached func(what string)
}

// raise brings the machine to where it is sealed: drawn and still, without a
// workspace and without a link.
func (m *Maker) raise(ctx context.Context, machine vm.Machine, r raising) error {
	spec, img := r.spec, r.img
	p, err := reach.Open(ctx, m.env.Open, reach.Config{
		Desktop: string(spec.ID), Machine: machine, Tokens: []string{r.secret}, Version: m.env.Version,
		Keyboard: img.Keyboard, Logger: m.env.Logger.With("builder", spec.ID),
	})
	if err != nil {
		return err
	}
	defer p.Close()
	limits := m.env.Cold
	limits.Still = max(limits.Still, min(4*limits.Still, stillFor))
	w := boot.Wish{
		Generation: string(spec.Incarnation), Display: img.Display, Keyboard: img.Keyboard, User: img.User,
	}
	mctx, stop := p.Until(ctx)
	defer stop()
	steps := []boot.Step{
		boot.LinkStep(p.Desktop, limits),
		boot.HandshakeStep(p.Desktop, limits, w, boot.Proof{Now: m.env.Now, UUIDs: m.env.UUIDs}),
		boot.SessionStep(p.Desktop, limits, w),
		boot.DrawnStep(p.Desktop, limits),
	}
	scale := func() int { return machine.Info().Accelerator.TimeoutScale() }
	if err := boot.Run(mctx, steps, scale, func(s api.Stage) { r.reached("stage " + string(s) + " reached") }); err != nil {
		return fmt.Errorf("boot the machine to be sealed: %w", err)
	}
	if err := m.warm(mctx, p); err != nil {
		return err
	}
	if len(img.Park.Argv) == 0 {
		return nil
	}
	r.reached(img.Park.Argv[0] + " is started, to stand ready")
	park := boot.Step{Stage: api.StageDrawn, Limit: limits.Drawn, Run: func(ctx context.Context, note func(string)) error {
		note(img.Park.Argv[0] + " is not parked")
		return p.Session.Park(ctx, img.Park)
	}}
	if err := boot.Run(mctx, []boot.Step{park, boot.DrawnStep(p.Desktop, limits)}, scale, func(api.Stage) {}); err != nil {
		return fmt.Errorf("%w: %w", errPark, err)
	}
	return nil
}

// firstCommand is what warm runs: a shell that starts a program, as most first
// commands do.
const (
	firstCommand = "/bin/true"
	firstLimit   = 20 * time.Second // of hardware vCPUs
)

// warm runs a command, of which nothing is left but what it has brought into
// memory: in each clone the first one finds programs, libraries and a control group
// ready. A guest in which it does not run is sealed as it is.
func (m *Maker) warm(ctx context.Context, p *reach.Parts) error {
	wctx, cancel := context.WithTimeout(ctx, m.scaled(ctx, firstLimit))
	defer cancel()
	spec := guest.ExecSpec{ID: guest.ExecID(token.NewID('x')), Shell: firstCommand}
	_, err := p.Execs.Run(wctx, spec, nil)
	if err == nil {
		err = p.Execs.Remove(wctx, spec.ID)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && fault.From(err).Code != api.CodeNotFound { // it may be forgotten by itself
		m.env.Logger.Warn("the first command of a guest to be sealed did not run", "err", err)
	}
	return nil
}

// sealed is what a clone of a boot snapshot goes on from.
func (m *Maker) sealed(img Image, made vm.Sealed, secret string) store.Sealed {
	return store.Sealed{
		Desktop: api.Desktop{
			Image: img.Name, ImageDigest: img.Digest, Shape: img.Shape.Name, Display: img.Display,
			Keyboard: img.Keyboard, Network: string(vm.NetworkOpen), WorkspaceMiB: img.WorkspaceMiB,
			NotParked: img.notParked,
		},
		GuestUser: img.User, Host: made.Host,
		Source: store.Source{
			Snapshot: made.ID, Tokens: []string{secret}, Greeted: true, Drawn: true, Keyboard: cmp.Or(img.Keyboard, "us"),
			Display: img.Display,
		},
	}
}
