package desk

import (
	"context"
	"time"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Instant is a moment of a desktop that can be cloned until it is let go.
type Instant struct {
	store.Sealed

	// Pause is how long the desktop stood still for it; 0: it stood anyhow.
	Pause time.Duration
	// Slow says why it took the long way; empty: it did not.
	Slow string

	release func()
}

// LetGo says that no more clones will be made of the instant. Called once.
func (i Instant) LetGo() { i.release() }

// Instant seals the present moment for clones of now; of a suspended desktop it
// is the one that it lies in. The caller lets it go.
func (d *Desktop) Instant(ctx context.Context) (Instant, error) {
	release, err := d.take(ctx)
	if err != nil {
		return Instant{}, err
	}
	if r := d.Row(); r.State == api.StateSuspended {
		snap, err := d.env.Store.Snapshot(ctx, d.Project, r.Asleep)
		if err != nil {
			release()
			return Instant{}, err
		}
		// A resume would take it away: it waits.
		return Instant{Sealed: snap.Sealed, release: release}, nil
	}
	defer release()
	id := vm.SnapshotID(token.NewID('f'))
	made, sealed, err := d.seal(ctx, vm.SnapshotSpec{ID: id})
	if err != nil {
		return Instant{}, err
	}
	return Instant{Sealed: sealed, Pause: made.Pause, Slow: made.Slow, release: func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), destroyLimit)
		defer cancel()
		d.removeFiles(rctx, id)
	}}, nil
}
