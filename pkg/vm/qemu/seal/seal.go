// Package seal takes the present instant of a running QEMU into the store:
// device state, framebuffer, changed pages and both disks.
//
// The vCPUs stand still only while those four are taken; files are made before
// and finished afterwards. The disks move last, so that whatever fails before
// needs no way back. After that the machine stands on disks in the store, whole
// snapshot or not, and its journal says so.
package seal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// Machine is what is sealed.
type Machine struct {
	Mon *qmp.Client
	PID int
	// Dir is the incarnation's: frozen overlays keep their names in it, for QEMU
	// opens them again by name.
	Dir string
	// RAM is the file that the process maps: the template's or an empty one.
	RAM string
	// Template, System and Workspace are what the machine stands on so far.
	Template  store.Path // empty: nothing, its memory is all its own
	System    []store.Path
	Workspace []store.Path
	// Give makes QEMU's user the owner of a file, Take makes it ours again and
	// readable to QEMU's user.
	Give, Take func(path string) error
	// Began is told before anything of the machine is touched, Moved when its
	// disks lie in the store. Both write that down.
	Began func(Mark) error
	Moved func(Mark) error
	// Trace is told the name of each step that is done.
	Trace func(step string)
}

// Mark is what a journal must know of a seal in progress.
type Mark struct {
	Snapshot vm.SnapshotID `json:"snapshot"`
	// Number ends the names of the new overlays.
	Number int `json:"number"`
	// Workspace says that this disk alone moves.
	Workspace bool `json:"workspace,omitzero"`
}

// Disks are the device ids of the disks that move.
func (m Mark) Disks() []string {
	if m.Workspace {
		return []string{argv.WorkspaceID}
	}
	return Disks()
}

// Overlay is the file of a new overlay of disk, in the incarnation's directory.
func (m Mark) Overlay(disk string) string { return fmt.Sprintf("%s.%d.qcow2", disk, m.Number) }

// StateFile is where QEMU puts device state, in the incarnation's directory.
func (m Mark) StateFile() string { return fmt.Sprintf("state.%d", m.Number) }

// Files are the places of the disks in the store.
func (m Mark) Files() []store.Path {
	out := []store.Path{store.At(m.Snapshot, store.System), store.At(m.Snapshot, store.Workspace)}
	return out[len(out)-len(m.Disks()):]
}

// Disks are the device ids of all disks, the order of everything here.
func Disks() []string { return []string{argv.SystemID, argv.WorkspaceID} }

// job is one seal in progress.
type job struct {
	Machine

	store *store.Store
	meta  store.Meta
	mark  Mark

	overlays []live.Overlay
	region   pages.Region
	before   []pages.Run // changed when nobody had to wait yet
	delta    *pages.File
	stats    pages.Stats
	ran      bool
	stopped  bool
	moved    bool
	pause    time.Duration
	slow     string
}

// Run seals m. meta says what is known of the machine; it comes back whole. The
// machine goes on as it was, and when Run fails nothing is left but disks that
// the machine stands on, which Moved was told of.
func Run(ctx context.Context, s *store.Store, m Machine, meta store.Meta) (vm.Sealed, error) {
	j := &job{Machine: m, store: s, meta: meta, mark: Mark{Snapshot: meta.Snapshot.ID}}
	if err := s.Begin(meta.Snapshot.ID); err != nil {
		return vm.Sealed{}, &vm.StageError{Stage: "begin", Err: err}
	}
	defer s.End(meta.Snapshot.ID)
	err := j.run(ctx)
	if j.delta != nil {
		err = errors.Join(err, j.delta.Close())
	}
	if err != nil {
		return vm.Sealed{}, errors.Join(err, j.undo(ctx))
	}
	return vm.Sealed{Snapshot: j.meta.Snapshot, Pause: j.pause, Slow: j.slow}, nil
}

type step struct {
	name string
	do   func(context.Context) error
}

func (j *job) run(ctx context.Context) error {
	return j.steps(ctx, []step{
		{"survey", j.survey},
		{"journal", func(context.Context) error { return j.Began(j.mark) }},
		{"files", j.files},
		{"overlays", func(ctx context.Context) error { return live.Add(ctx, j.Mon, j.overlays) }},
		{"instant", j.instant},
		{"moved", func(context.Context) error { return j.Moved(j.mark) }},
		{"disks", j.disks},
		{"memory", j.memory},
		{"digest", j.digest},
		{"commit", func(context.Context) error { return j.store.Commit(j.meta) }},
	})
}

// steps takes steps in order. Trace hears of each one that is done.
func (j *job) steps(ctx context.Context, all []step) error {
	for _, step := range all {
		err := ctx.Err()
		if err == nil {
			err = step.do(ctx)
		}
		if err != nil {
			return &vm.StageError{Stage: step.name, Err: err}
		}
		j.Trace(step.name)
	}
	return nil
}

// tops finds out about the disks that shall move.
func (j *job) tops(ctx context.Context) ([]live.Disk, error) {
	disks, err := live.Disks(ctx, j.Mon, j.mark.Disks()...)
	if err != nil {
		return nil, err
	}
	if j.mark.Number, err = live.Number(ctx, j.Mon, Disks()...); err != nil {
		return nil, err
	}
	for _, d := range disks {
		if filepath.Dir(d.File) != j.Dir {
			return nil, fmt.Errorf("the top of disk %s is %s, which is none of the machine's files", d.ID, d.File)
		}
		j.overlays = append(j.overlays, live.Overlay{
			Disk: d, Node: fmt.Sprintf("%s%d", d.ID, j.mark.Number), File: filepath.Join(j.Dir, j.mark.Overlay(d.ID)),
		})
	}
	return disks, nil
}

// survey finds out what there is, while the machine runs.
func (j *job) survey(ctx context.Context) error {
	disks, err := j.tops(ctx)
	if err != nil {
		return err
	}
	j.meta.SystemBytes, j.meta.WorkspaceBytes = disks[0].Bytes, disks[1].Bytes
	const mib = 1 << 20
	j.meta.Snapshot.SystemMiB = (disks[0].Bytes + mib - 1) / mib
	j.meta.Snapshot.WorkspaceMiB = (disks[1].Bytes + mib - 1) / mib
	j.region, err = pages.Find(j.PID, j.RAM)
	if err == nil {
		j.before, err = pages.Changed(j.PID, j.region) //nolint:contextcheck // quick, and cut short by nothing
	}
	if errors.Is(err, vm.ErrGone) {
		return err
	}
	if err != nil {
		j.slow = err.Error()
	}
	return nil
}

// instant is the pause.
func (j *job) instant(ctx context.Context) error {
	status, err := live.Status(ctx, j.Mon)
	if err != nil {
		return err
	}
	switch status {
	case live.Running:
		j.ran = true
	case live.Paused, live.PostMigrate:
	default:
		return fmt.Errorf("the machine is in state %s: only one that runs or is paused can be sealed", status)
	}
	began := time.Now()
	if j.ran {
		j.stopped = true
		if err := live.Stop(ctx, j.Mon); err != nil {
			return err
		}
	}
	j.Trace("stop")
	if err := j.take(ctx); err != nil {
		return err
	}
	if j.ran {
		if err := live.Cont(ctx, j.Mon); err != nil {
			return err
		}
		j.stopped = false
		j.pause = time.Since(began)
	}
	return nil
}

// take takes all of the instant.
func (j *job) take(ctx context.Context) error {
	if j.slow == "" {
		addr, size, err := live.Framebuffer(ctx, j.Mon)
		switch {
		case errors.Is(err, live.ErrNoFramebuffer):
			j.slow = err.Error()
		case err != nil:
			return err
		default:
			if err := j.quick(ctx, pages.Region{Addr: addr, Size: size}); err != nil {
				return err
			}
			return j.move(ctx)
		}
	}
	if err := j.move(ctx); err != nil { // a stream leaves the disks closed until the machine goes on
		return err
	}
	return j.stream(ctx)
}

// quick takes device state, framebuffer and changed pages side by side.
func (j *job) quick(ctx context.Context, screen pages.Region) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := live.SaveDevices(ctx, j.Mon, filepath.Join(j.Dir, j.mark.StateFile())); err != nil {
			return noRoom(j.Dir, err)
		}
		j.Trace("devices")
		return nil
	})
	g.Go(func() error {
		if err := j.copyScreen(ctx, screen); err != nil {
			return fmt.Errorf("copy the framebuffer: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		if err := j.copyPages(ctx); err != nil {
			return fmt.Errorf("copy changed pages: %w", err)
		}
		return nil
	})
	return g.Wait()
}

func (j *job) copyScreen(ctx context.Context, r pages.Region) (err error) {
	runs, err := pages.Changed(j.PID, r) //nolint:contextcheck // quick, and cut short by nothing
	if err != nil {
		return err
	}
	f, err := pages.Create(j.file(store.VRAM), r.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = pages.Copy(ctx, j.PID, r, runs, f)
	return err
}

func (j *job) copyPages(ctx context.Context) error {
	runs, err := pages.Changed(j.PID, j.region) //nolint:contextcheck // quick, and cut short by nothing
	if err != nil {
		return err
	}
	j.stats, err = pages.Copy(ctx, j.PID, j.region, runs, j.delta)
	return err
}

// move is not cut short by a caller who gives up: it would not be known whether
// it took place.
func (j *job) move(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := live.Switch(context.WithoutCancel(ctx), j.Mon, j.overlays); err != nil {
		return err
	}
	j.moved = true
	j.Trace("switch")
	return nil
}

// stream takes the slow way. A paused machine has to run for a moment after it,
// for QEMU to open its disks again.
func (j *job) stream(ctx context.Context) error {
	f, err := os.OpenFile(j.file(store.State), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	j.stopped = true
	if err := errors.Join(live.SaveStream(ctx, j.Mon, f), f.Close()); err != nil {
		return err
	}
	j.meta.Stream = true
	if !j.ran {
		err = errors.Join(live.Cont(ctx, j.Mon), live.Stop(ctx, j.Mon))
	}
	return err
}

func (j *job) file(name string) string { return j.store.File(j.meta.Own(name)) }

// undoTimeout bounds the way back, which a cancelled caller does not stop.
const undoTimeout = 20 * time.Second

// undo lets the machine go on and takes away what is of no use.
func (j *job) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	var errs []error
	if j.stopped && j.ran {
		errs = append(errs, live.Cont(ctx, j.Mon))
	}
	if !j.moved && j.mark.Number != 0 {
		stands, err := Stands(ctx, j.Mon, j.Dir, j.mark)
		if err != nil {
			// QEMU has ended, or the journal's mark will tell who looks later.
			return errors.Join(append(errs, err)...)
		}
		j.moved = stands
	}
	if j.moved {
		return errors.Join(append(errs, j.Moved(j.mark), j.disks(ctx))...)
	}
	errs = append(errs, Abandon(ctx, j.Mon, j.Dir, j.mark))
	for _, p := range j.mark.Files() {
		errs = append(errs, removeIfThere(j.store.File(p)))
	}
	return errors.Join(append(errs, j.Moved(Mark{}))...)
}

// Abandon takes back overlays that mark speaks of and that the machine does not
// stand on.
func Abandon(ctx context.Context, mon *qmp.Client, dir string, mark Mark) error {
	if mark.Number == 0 {
		return nil
	}
	var overlays []live.Overlay
	for _, id := range mark.Disks() {
		overlays = append(overlays, live.Overlay{Node: fmt.Sprintf("%s%d", id, mark.Number)})
	}
	errs := []error{live.Drop(ctx, mon, overlays), removeIfThere(filepath.Join(dir, mark.StateFile()))}
	for _, id := range mark.Disks() {
		errs = append(errs, removeIfThere(filepath.Join(dir, mark.Overlay(id))))
	}
	return errors.Join(errs...)
}

// Stands reports whether a machine's disks are the overlays of mark.
func Stands(ctx context.Context, mon *qmp.Client, dir string, mark Mark) (bool, error) {
	disks, err := live.Disks(ctx, mon, mark.Disks()[0])
	if err != nil {
		return false, err
	}
	return disks[0].File == filepath.Join(dir, mark.Overlay(disks[0].ID)), nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
