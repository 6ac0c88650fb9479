package desk

import (
	"cmp"
	"context"
	"fmt"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// wakeUp brings a suspended desktop back under a new incarnation. When that
// fails it stays suspended.
func (d *Desktop) wakeUp(ctx context.Context, r store.Desktop) error {
	snap, err := d.env.Store.Snapshot(ctx, d.Project, r.Asleep)
	if err != nil {
		return fmt.Errorf("find the memory of desktop %s: %w", r.Name, err)
	}
	next := r
	next.Origin, next.OriginReason = api.OriginResume, ""
	err = d.replace(ctx, next, snap, func(ctx context.Context, r store.Desktop) error {
		return d.env.Store.BurySnapshot(ctx, snap.ID, &r, d.env.Now())
	})
	if err != nil {
		return err
	}
	d.removeFiles(ctx, vm.SnapshotID(snap.ID))
	d.Publish(event.TypeResumed, map[string]any{"from": string(api.StateSuspended)})
	return nil
}

// Restore puts the desktop back to a sealed instant, in place. Its machine goes
// on until the one that takes over is sound.
func (d *Desktop) Restore(ctx context.Context, snap store.Snapshot) error {
	return d.do(ctx, func(ctx context.Context) error {
		release, err := d.take(ctx)
		if err != nil {
			return err
		}
		defer release()
		r := d.Row()
		asleep := r.Asleep
		next := r
		was := snap.Sealed.Desktop
		next.Image, next.ImageDigest, next.Shape, next.WorkspaceMiB = was.Image, was.ImageDigest, was.Shape, was.WorkspaceMiB
		next.Display, next.Keyboard, next.NotParked = was.Display, was.Keyboard, was.NotParked
		next.CameFrom = cmp.Or(r.CameFrom, r.Snapshot)
		if was.ID == d.ID { // as it was then, it came from there
			next.CameFrom = cmp.Or(was.CameFrom, was.Snapshot)
		}
		next.Origin, next.OriginReason, next.Snapshot = api.OriginRestore, "", snap.ID
		err = d.replace(ctx, next, snap, func(ctx context.Context, r store.Desktop) error {
			return store.Workspaces{Store: d.env.Store}.PutBack(ctx, r, snap.Sealed.Attached, asleep, d.env.Now())
		})
		if err != nil {
			return err
		}
		if asleep != "" {
			d.removeFiles(ctx, vm.SnapshotID(asleep))
		}
		d.Publish(event.TypeRestored, map[string]any{"snapshot": snap.ID})
		return nil
	})
}

// replace makes a machine from a sealed instant, proves it, and only then lets it
// take the place of the present one. next is the desktop as it shall be; write
// makes the change last.
func (d *Desktop) replace(ctx context.Context, next store.Desktop, snap store.Snapshot, write func(context.Context, store.Desktop) error) error {
	s, err := d.env.Snapshotter()
	if err != nil {
		return err
	}
	sealed := snap.Sealed
	if !sealed.Source.Drawn {
		return api.Errorf(api.CodePrecondition, "the snapshot is of a desktop that was still starting; create a desktop from it instead")
	}
	release, err := d.env.Reserve(admission.Need{OwnMiB: snap.OwnMiB(), Clone: true})
	if err != nil {
		return fault.At(string(api.StageAdmission), err)
	}
	defer release()
	now := d.env.Now().UTC()
	next.Incarnation, next.LinkToken, next.Source = token.NewID('i'), token.New(), nil
	next.Asleep, next.Rests, next.Failure = "", false, nil
	next.Stages = []api.StageTime{{Stage: api.StageAdmission, Reached: now}}
	next.Started = now
	reached := func(stage api.Stage) {
		next.Stages, _ = addStage(next.Stages, now, stage, d.env.Now().UTC())
	}
	m, err := d.startClone(ctx, next, sealed.Source, s.Clone)
	if err != nil {
		return err
	}
	reached(api.StageMachine)
	p, err := d.prove(ctx, next, m, sealed.Source, reached)
	if err != nil {
		err = WithLog(err, m)
		d.dropMachine(ctx, m)
		return err
	}
	describe(&next.Desktop, m.Info())
	next.State = api.StateReady
	err = d.commit(ctx, func(r *store.Desktop) {
		// What may have been changed meanwhile stays.
		next.Labels, next.Env, next.Policy, next.Expires, next.ControlPolicy = r.Labels, r.Env, r.Policy, r.Expires, r.ControlPolicy
		*r = next
	}, write)
	if err != nil {
		p.Close()
		d.dropMachine(ctx, m)
		return err
	}
	d.closeParts()
	d.mu.Lock()
	old := d.machine
	d.machine = m
	d.mu.Unlock()
	d.env.Usage.Started(d.Row(), m)
	d.use(p)
	if old != nil {
		d.dropMachine(ctx, old)
	}
	d.ready(true)
	return nil
}
