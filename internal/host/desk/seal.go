package desk

import (
	"context"
	"errors"
	"slices"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// take waits until nobody else seals, stops or replaces the machine.
func (d *Desktop) take(ctx context.Context) (release func(), err error) {
	select {
	case <-d.hold:
		return func() { d.hold <- struct{}{} }, nil
	case <-d.deleting:
		return nil, api.Errorf(api.CodePrecondition, "desktop %s is being deleted", d.ID)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Seal seals the present instant, running, paused or starting; the desktop goes
// on. The error leaves nothing behind.
func (d *Desktop) Seal(ctx context.Context, spec vm.SnapshotSpec) (vm.Sealed, store.Sealed, error) {
	release, err := d.take(ctx)
	if err != nil {
		return vm.Sealed{}, store.Sealed{}, err
	}
	defer release()
	return d.seal(ctx, spec)
}

// seal is Seal for who holds the machine.
func (d *Desktop) seal(ctx context.Context, spec vm.SnapshotSpec) (vm.Sealed, store.Sealed, error) {
	s, err := d.env.Snapshotter()
	if err != nil {
		return vm.Sealed{}, store.Sealed{}, err
	}
	before := d.Row()
	_, m, _ := d.Parts()
	if m == nil || isClosed(m.Done()) {
		return vm.Sealed{}, store.Sealed{}, api.Errorf(api.CodePrecondition, "desktop %s is %s: it has no machine that could be sealed", before.Name, before.State)
	}
	// Read before the instant: what is published later may be of after it.
	at, err := store.Workspaces{Store: d.env.Store}.Attached(ctx, d.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return vm.Sealed{}, store.Sealed{}, err
	}
	plain := d.plain(ctx)
	made, err := s.Snapshot(ctx, m, spec)
	nothing := plain()
	if err != nil {
		return vm.Sealed{}, store.Sealed{}, err
	}
	after := d.Row()
	src := store.Source{
		Snapshot: spec.ID, Keyboard: before.Keyboard, Display: before.Display, Mounted: true, Plain: nothing,
		// What was reached before is in it; what was reached meanwhile may be.
		Greeted: reachedStage(before.Stages, api.StageHandshake), Drawn: reachedStage(before.Stages, api.StageDrawn),
	}
	for _, r := range []store.Desktop{before, after} {
		tokens := []string{r.LinkToken}
		if r.Source != nil { // a clone that was not proven yet
			tokens = append(tokens, r.Source.Tokens...)
		}
		for _, t := range tokens {
			if !slices.Contains(src.Tokens, t) {
				src.Tokens = append(src.Tokens, t)
			}
		}
	}
	return made, store.Sealed{Desktop: after.Desktop, GuestUser: after.GuestUser, Host: made.Host, Source: src, Attached: at}, nil
}

// plain begins to look at the screen. The answer, asked for once, is true when it
// was seen to be of one colour meanwhile: then its clones' screens may be so too.
func (d *Desktop) plain(ctx context.Context) (answer func() bool) {
	d.mu.Lock()
	p := d.parts
	d.mu.Unlock()
	if p == nil {
		return func() bool { return false }
	}
	ctx, cancel := context.WithCancel(ctx)
	seen := make(chan bool, 1)
	go func() { // awaited by the answer
		_, err := p.Screen.Wait(ctx, live.Waiting{For: "plain"})
		seen <- err == nil
	}()
	return func() bool {
		cancel()
		return <-seen
	}
}

func reachedStage(list []api.StageTime, stage api.Stage) bool {
	return slices.ContainsFunc(list, func(t api.StageTime) bool { return t.Stage == stage })
}

// Snapshotter is the provider's ability to seal and clone.
func (e *Env) Snapshotter() (vm.Snapshotter, error) {
	s, ok := e.Provider.(vm.Snapshotter)
	if !ok {
		return nil, api.Errorf(api.CodeUnsupported, "this host's provider of machines cannot seal or clone them")
	}
	return s, nil
}

// dropSnapshot buries a snapshot that nobody needs, and removes its files. What
// fails is done at the next start of the host.
func (d *Desktop) dropSnapshot(ctx context.Context, id vm.SnapshotID) {
	if err := d.env.Store.BurySnapshot(ctx, string(id), nil, d.env.Now()); err != nil {
		d.log.Error("snapshot not buried", "snapshot", id, "err", err)
		return
	}
	d.removeFiles(ctx, id)
}

func (d *Desktop) removeFiles(ctx context.Context, id vm.SnapshotID) {
	s, err := d.env.Snapshotter()
	if err == nil {
		err = s.RemoveSnapshot(ctx, id)
	}
	if err != nil {
		d.log.Error("snapshot not removed; the next start of the host tries again", "snapshot", id, "err", err)
	}
}
