package seal

import (
	"context"
	"errors"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// Freeze moves the workspace disk, and nothing else, to a new overlay. What it
// was lies in the store under id from then on and does not change; it is not
// listed as a snapshot, and stays as long as something stands on it. QEMU holds
// the guest's writes back for that moment; the vCPUs run on.
func Freeze(ctx context.Context, s *store.Store, m Machine, id vm.SnapshotID) error {
	j := &job{Machine: m, store: s, mark: Mark{Snapshot: id, Workspace: true}}
	if err := s.Begin(id); err != nil {
		return &vm.StageError{Stage: "begin", Err: err}
	}
	defer s.End(id)
	err := j.steps(ctx, []step{
		{"survey", func(ctx context.Context) error { _, err := j.tops(ctx); return err }},
		{"journal", func(context.Context) error { return j.Began(j.mark) }},
		{"files", func(context.Context) error { return j.fresh() }},
		{"overlays", func(ctx context.Context) error { return live.Add(ctx, j.Mon, j.overlays) }},
		{"switch", j.move},
		{"moved", func(context.Context) error { return j.Moved(j.mark) }},
		{"disks", j.disks},
	})
	if err != nil {
		return errors.Join(err, j.undo(ctx))
	}
	return nil
}

// Settle ends what was cut off: what was begun and has not moved the machine's
// disks is taken back. With runs the machine goes on. It returns what of the mark
// is true; nil when that could not be found out.
func Settle(ctx context.Context, mon *qmp.Client, dir string, mark Mark, runs bool) (*Mark, error) {
	stands, err := Stands(ctx, mon, dir, mark)
	if err == nil && runs {
		err = live.Cont(ctx, mon)
	}
	if err != nil {
		return nil, err
	}
	if stands {
		return &mark, nil
	}
	return &Mark{}, Abandon(ctx, mon, dir, mark)
}
