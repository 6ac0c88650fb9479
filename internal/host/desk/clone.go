package desk

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Start makes a machine from a snapshot: vm.Snapshotter.Clone, or what was
// prepared for it.
type Start func(ctx context.Context, spec vm.CloneSpec) (vm.Machine, error)

// Clone starts the desktop's machine from a sealed instant and proves that the
// clone is sound. Nobody can use it before, and it is destroyed when it is not;
// a guest that was still booting simply goes on, in everybody's sight. cloned is
// called once the snapshot is not needed any more, whatever came of it.
func (d *Desktop) Clone(ctx context.Context, src store.Source, start Start, cloned func()) error {
	leave, err := d.env.enter(ctx)
	if err != nil {
		cloned()
		return err
	}
	defer leave()
	r := d.Row()
	m, err := d.startClone(ctx, r, src, start)
	if err != nil {
		cloned()
		return err
	}
	d.setMachine(ctx, m)
	d.reached(ctx, api.StageMachine)
	if src.Drawn {
		err := d.proveOrDrop(ctx, m, src)
		cloned() // takes files away, for which nobody shall wait
		return err
	}
	cloned()
	leave()
	return d.bringUp(ctx, m, append(slices.Clone(src.Tokens), r.LinkToken), src.Keyboard)
}

// enter waits for its turn to start a clone. leave may be called again.
func (e *Env) enter(ctx context.Context) (leave func(), err error) {
	select {
	case e.Starts <- struct{}{}:
		return sync.OnceFunc(func() { <-e.Starts }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func cloneSpec(r store.Desktop, src store.Source) vm.CloneSpec {
	spec := vm.CloneSpec{
		ID: vm.ID(r.ID), Incarnation: vm.Incarnation(r.Incarnation), Snapshot: src.Snapshot,
		Network: vm.NetworkMode(r.Network), GuestConfig: GuestConfig(r.LinkToken),
	}
	if !src.Mounted {
		spec.Workspace = workspace(r)
	}
	return spec
}

// startClone is the stage of the machine for a clone.
func (d *Desktop) startClone(ctx context.Context, r store.Desktop, src store.Source, start Start) (m vm.Machine, err error) {
	caps, err := d.env.Provider.Capabilities(ctx)
	if err != nil {
		return nil, fault.At(string(api.StageMachine), err)
	}
	spec := cloneSpec(r, src)
	var cause error
	step := boot.Step{Stage: api.StageMachine, Limit: d.env.Clone.Machine, Run: func(ctx context.Context, note func(string)) error {
		note("the provider has not cloned the snapshot")
		m, cause = start(ctx, spec)
		if cause != nil {
			return machineError(cause)
		}
		return nil
	}}
	if err := boot.Run(ctx, []boot.Step{step}, caps.Accelerator.TimeoutScale, func(api.Stage) {}); err != nil {
		if m != nil { // it came after its time
			d.dropMachine(ctx, m)
		}
		return nil, errors.Join(err, cause) // what it is stays to be asked for
	}
	return m, nil
}

// proveOrDrop proves the clone that the desktop has, lets callers use it, or
// destroys it.
func (d *Desktop) proveOrDrop(ctx context.Context, m vm.Machine, src store.Source) error {
	p, err := d.prove(ctx, d.Row(), m, src, func(s api.Stage) {
		if s != api.StageDrawn { // with that one it is ready, and can be used
			d.reached(ctx, s)
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			return err // of the host, whose next run goes on, or of a delete
		}
		if isClosed(m.Done()) {
			return err
		}
		err = WithLog(err, m)
		d.mu.Lock()
		d.machine = nil
		d.mu.Unlock()
		d.dropMachine(ctx, m)
		return err
	}
	d.use(p)
	d.reached(ctx, api.StageDrawn)
	d.ready(src.Mounted)
	return nil
}

// prove opens the parts of a clone of something drawn and does what must be
// done, and be true, before anybody may use it. r is the desktop as it shall be.
func (d *Desktop) prove(ctx context.Context, r store.Desktop, m vm.Machine, src store.Source, reached func(api.Stage)) (*reach.Parts, error) {
	p, err := d.open(ctx, m, append(slices.Clone(src.Tokens), r.LinkToken), src.Keyboard)
	if err != nil {
		return nil, err
	}
	// The first frame takes a while: it comes while the guest is spoken to.
	p.Beside(func(ctx context.Context) { _, _ = p.Screen.Wait(ctx, live.Waiting{For: "notplain"}) })
	limits, w := d.env.Clone, wish(r)
	w.Token, w.Present, w.Shown = r.LinkToken, src.Keyboard, src.Display
	mctx, stop := p.Until(ctx)
	err = boot.Run(mctx, []boot.Step{
		boot.LinkStep(p.Desktop, limits),
		boot.HandshakeStep(p.Desktop, limits, w, boot.Proof{Now: d.env.Now, UUIDs: d.env.UUIDs, Clone: true}),
		boot.SessionStep(p.Desktop, limits, w),
		boot.NotBlankStep(p.Desktop, limits, src.Plain),
	}, scale(m), reached)
	stop()
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}
