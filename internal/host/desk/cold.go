package desk

import (
	"context"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Image is what a machine boots from.
type Image struct {
	Boot   vm.Boot
	System vm.Disk
	Shape  vm.Shape
}

// Cold boots the desktop's machine and brings it up. Reason says why it is no
// clone; it may be empty.
func (d *Desktop) Cold(ctx context.Context, img Image, reason string) error {
	caps, err := d.env.Provider.Capabilities(ctx)
	if err != nil {
		return fault.At(string(api.StageMachine), err)
	}
	d.Update(ctx, func(v *store.Desktop) {
		v.Origin, v.OriginReason, v.Source, v.Snapshot = api.OriginCold, reason, nil, ""
	})
	r := d.Row()
	spec := vm.Spec{
		ID: vm.ID(d.ID), Incarnation: vm.Incarnation(r.Incarnation), Shape: img.Shape,
		Boot: img.Boot, System: img.System,
		Workspace: workspace(r),
		Width:     r.Display.Width, Height: r.Display.Height,
		Network: vm.NetworkMode(r.Network), GuestConfig: GuestConfig(r.LinkToken),
	}
	step := boot.Step{Stage: api.StageMachine, Limit: d.env.Cold.Machine, Run: func(ctx context.Context, note func(string)) error {
		note("the provider has not started the machine")
		m, err := d.env.Provider.Create(ctx, spec)
		if err != nil {
			return machineError(err)
		}
		d.setMachine(ctx, m)
		return nil
	}}
	if err := boot.Run(ctx, []boot.Step{step}, caps.Accelerator.TimeoutScale, func(s api.Stage) { d.reached(ctx, s) }); err != nil {
		return err
	}
	_, m, _ := d.Parts()
	return d.bringUp(ctx, m, []string{r.LinkToken}, r.Keyboard)
}

// bringUp opens the live parts of a machine whose guest boots, lets callers use
// them, and walks through the stages. An end of the machine cancels it.
func (d *Desktop) bringUp(ctx context.Context, m vm.Machine, tokens []string, keyboard string) error {
	limits, w := d.env.Cold, wish(d.Row())
	w.Token = d.Row().LinkToken
	return d.walk(ctx, m, tokens, keyboard, func(p *reach.Parts) []boot.Step {
		return []boot.Step{
			boot.LinkStep(p.Desktop, limits),
			boot.HandshakeStep(p.Desktop, limits, w, boot.Proof{Now: d.env.Now, UUIDs: d.env.UUIDs}),
			boot.SessionStep(p.Desktop, limits, w),
			boot.DrawnStep(p.Desktop, limits),
		}
	})
}

// walk opens a machine's parts for everybody and does the steps.
func (d *Desktop) walk(ctx context.Context, m vm.Machine, tokens []string, keyboard string, steps func(*reach.Parts) []boot.Step) error {
	p, err := d.open(ctx, m, tokens, keyboard)
	if err != nil {
		return err
	}
	d.use(p)
	mctx, stop := p.Until(ctx)
	err = boot.Run(mctx, steps(p), scale(m), func(s api.Stage) { d.reached(ctx, s) })
	stop()
	if err != nil {
		return err
	}
	d.ready(true)
	return nil
}

// again is what an adopted machine was before this run of the host.
type again struct{ drawn bool }

// adopt takes note of the machine of an earlier run, before anybody else can see
// the desktop: it is starting again until it is taken up.
func (d *Desktop) adopt(m vm.Machine) {
	describe(&d.row.Desktop, m.Info())
	if d.row.State == api.StatePaused || d.row.State == api.StateDeleting {
		return
	}
	d.again = &again{drawn: len(d.row.Stages) == len(stages())}
	d.row.State, d.row.Failure = api.StateStarting, nil
	d.row.Stages = d.row.Stages[:min(len(d.row.Stages), 2)] // admission, machine
}

// relink takes up the machine of an earlier run of the host. The link and the
// handshake are made anew, since clock and connections are of the past; what was
// drawn stays drawn.
func (d *Desktop) relink(ctx context.Context, m vm.Machine) error {
	d.mu.Lock()
	r, drawn := cloneRow(d.row), d.again != nil && d.again.drawn
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.again = nil
	}()
	if src := r.Source; src != nil && src.Drawn {
		return d.proveOrDrop(ctx, m, *src)
	}
	tokens := []string{r.LinkToken}
	if r.Source != nil {
		tokens = append(tokens, r.Source.Tokens...)
	}
	if !drawn {
		return d.bringUp(ctx, m, tokens, r.Keyboard)
	}
	limits, w := d.env.Cold, wish(r)
	w.Token = r.LinkToken
	return d.walk(ctx, m, tokens, r.Keyboard, func(p *reach.Parts) []boot.Step {
		// A user may be at work: neither display nor stillness is imposed.
		at := func(s api.Stage) boot.Step {
			return boot.Step{Stage: s, Limit: limits.Link, Run: func(context.Context, func(string)) error { return nil }}
		}
		return []boot.Step{
			boot.LinkStep(p.Desktop, limits),
			boot.HandshakeStep(p.Desktop, limits, w, boot.Proof{Now: d.env.Now, UUIDs: d.env.UUIDs}),
			at(api.StageSession), at(api.StageDrawn),
		}
	})
}

// TakeUp goes on with an adopted machine as it is written down: one that shall
// run runs, one that shall stand still stands still.
func (d *Desktop) TakeUp(ctx context.Context, m vm.Machine) error {
	d.Publish(event.TypeAdopted, nil)
	p, _ := m.(vm.Pauser)
	r := d.Row()
	if r.State == api.StatePaused && p != nil {
		if err := p.Pause(ctx); err != nil {
			return err
		}
		d.env.Usage.Paused(m.Info().Incarnation)
		parts, err := d.open(ctx, m, []string{r.LinkToken}, r.Keyboard)
		if err != nil {
			return err
		}
		d.use(parts)
		d.resting(func(r live.Rester) { r.Suspend() })
		return nil
	}
	if m.Info().State == vm.StatePaused && p != nil {
		// The earlier run ended while it sealed or stopped the machine.
		if err := p.Resume(ctx); err != nil {
			return err
		}
		d.env.Usage.Resumed(m.Info().Incarnation)
	}
	return d.relink(ctx, m)
}
