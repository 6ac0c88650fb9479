package desk

import (
	"context"
	"errors"
	"fmt"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Spare is a desktop that nobody has asked for yet: a hypervisor process that
// waits for its state, or, when it is warm, a clone that was proven, exercised
// once and stopped. It has the ids that its desktop will have. It belongs to one
// goroutine at a time.
type Spare struct {
	d        *Desktop
	src      store.Source
	prepared vm.Prepared  // nil once it was started
	warm     *reach.Parts // nil before
}

// NewSpare prepares a spare of a boot snapshot with a workspace of that size.
func NewSpare(ctx context.Context, env *Env, sealed store.Sealed, network vm.NetworkMode) (*Spare, error) {
	s, err := env.Snapshotter()
	if err != nil {
		return nil, err
	}
	row := store.Desktop{Desktop: sealed.Desktop, LinkToken: token.New(), GuestUser: sealed.GuestUser}
	row.ID, row.Incarnation, row.Network = token.NewID('d'), token.NewID('i'), string(network)
	sp := &Spare{d: New(env, row, nil), src: sealed.Source}
	sp.prepared, err = s.Prepare(ctx, cloneSpec(row, sp.src))
	if err != nil {
		return nil, fmt.Errorf("prepare a clone of %s: %w", sealed.Source.Snapshot, err)
	}
	return sp, nil
}

// Warm starts the process, proves the clone, uses it as its first caller will,
// and stops it. When that fails nothing is left of the spare.
func (s *Spare) Warm(ctx context.Context) error {
	leave, err := s.d.env.enter(ctx)
	if err != nil {
		return errors.Join(err, s.Discard(ctx))
	}
	defer leave()
	r := s.d.Row()
	m, err := s.d.startClone(ctx, r, s.src, s.start)
	if err != nil {
		return errors.Join(err, s.Discard(ctx))
	}
	s.prepared = nil
	p, err := s.d.prove(ctx, r, m, s.src, func(api.Stage) {})
	if err == nil {
		err = s.exercise(ctx, p)
	}
	if err != nil {
		p.Close()
		s.d.dropMachine(ctx, m)
		return err
	}
	s.d.machine, s.warm = m, p // nobody else knows it
	return nil
}

func (s *Spare) start(ctx context.Context, _ vm.CloneSpec) (vm.Machine, error) {
	return s.prepared.Start(ctx)
}

// exercise does what fills the translation caches, and stops the vCPUs.
func (s *Spare) exercise(ctx context.Context, p *reach.Parts) error {
	pauser, ok := p.Machine.(vm.Pauser)
	if !ok {
		return api.Errorf(api.CodeUnsupported, "this host's provider of machines cannot pause them")
	}
	if _, err := p.Execs.Run(ctx, guest.ExecSpec{Argv: []string{"true"}}, nil); err != nil {
		return fmt.Errorf("exercise a clone: %w", err)
	}
	if _, err := p.Screen.Shot(ctx, live.Shot{}); err != nil {
		return fmt.Errorf("exercise a clone: %w", err)
	}
	if r, ok := p.Link.(live.Rester); ok {
		r.Suspend()
	}
	return pauser.Pause(ctx)
}

// Snapshot is what it was cloned from.
func (s *Spare) Snapshot() vm.SnapshotID { return s.src.Snapshot }

// IsWarm says which of the two kinds it is.
func (s *Spare) IsWarm() bool { return s.warm != nil }

// Alive says whether it can still be used.
func (s *Spare) Alive() bool { return s.warm == nil || !isClosed(s.warm.Machine.Done()) }

// Discard ends a spare that nobody wants.
func (s *Spare) Discard(ctx context.Context) error {
	if s.prepared != nil {
		return s.prepared.Discard(context.WithoutCancel(ctx))
	}
	if s.warm != nil {
		s.warm.Close()
		s.d.dropMachine(ctx, s.warm.Machine)
	}
	return nil
}

// Identity gives a row the ids of the spare.
func (s *Spare) Identity(row *store.Desktop) {
	own := s.d.Row()
	row.ID, row.Incarnation, row.LinkToken = own.ID, own.Incarnation, own.LinkToken
}

// Desktop makes the spare the desktop of a row that has its Identity. It is run
// with Claim.
func (s *Spare) Desktop(row store.Desktop) *Desktop {
	s.d.row, s.d.Project = row, row.Project // nobody else knows it yet
	s.d.Meter.Touch()
	return s.d
}

// Claim begins the desktop. When it fails nothing is left of the machine, and the
// desktop can be begun otherwise, under another incarnation.
func (s *Spare) Claim(ctx context.Context) error {
	d := s.d
	src := s.src
	d.Update(ctx, func(r *store.Desktop) { r.Origin, r.Source = api.OriginPool, &src })
	if s.warm == nil {
		err := d.Clone(ctx, src, s.start, func() {})
		if err != nil {
			_ = s.prepared.Discard(context.WithoutCancel(ctx)) // after a start it does nothing
		}
		return err
	}
	p, m := s.warm, s.warm.Machine
	if err := s.claimWarm(ctx, p); err != nil {
		p.Close()
		if ctx.Err() == nil { // otherwise a delete has it, or the next run of the host
			d.mu.Lock()
			d.machine = nil
			d.mu.Unlock()
			d.dropMachine(ctx, m)
		}
		return err
	}
	d.use(p)
	d.reached(ctx, api.StageDrawn)
	d.ready(false)
	return nil
}

// claimWarm lets a warm spare run, and gives it what is its caller's.
func (s *Spare) claimWarm(ctx context.Context, p *reach.Parts) error {
	d, m := s.d, p.Machine
	pauser, ok := m.(vm.Pauser)
	if !ok {
		return api.Errorf(api.CodeUnsupported, "this host's provider of machines cannot pause them")
	}
	if err := pauser.Resume(ctx); err != nil {
		return machineError(err)
	}
	if r, ok := p.Link.(live.Rester); ok {
		r.Resume()
	}
	p.Beside(func(ctx context.Context) { _, _ = p.Screen.Wait(ctx, live.Waiting{For: "notplain"}) })
	r := d.Row()
	limits, w := d.env.Clone, wish(r)
	w.Token, w.Present, w.Shown = r.LinkToken, s.src.Keyboard, s.src.Display
	steps := []boot.Step{
		boot.LinkStep(p.Desktop, limits),
		boot.HandshakeStep(p.Desktop, limits, w, boot.Proof{Now: d.env.Now, UUIDs: d.env.UUIDs, Clone: true}),
		boot.SessionStep(p.Desktop, limits, w),
		boot.NotBlankStep(p.Desktop, limits, s.src.Plain),
	}
	d.setMachine(ctx, m)
	d.reached(ctx, api.StageMachine)
	mctx, stop := p.Until(ctx)
	defer stop()
	return boot.Run(mctx, steps, scale(m), func(stage api.Stage) {
		if stage != api.StageDrawn { // with that one it is ready, and can be used
			d.reached(ctx, stage)
		}
	})
}
