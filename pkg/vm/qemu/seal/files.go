package seal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

// files makes what QEMU will write into, and gives the disks their second name
// in the store while they are still the machine's.
func (j *job) files(context.Context) error {
	if err := j.fresh(); err != nil {
		return err
	}
	if j.slow != "" {
		return nil
	}
	if err := j.reserve(); err != nil { //nolint:contextcheck // quick, and cut short by nothing
		return err
	}
	state := filepath.Join(j.Dir, j.mark.StateFile())
	f, err := os.OpenFile(state, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make state file: %w", err)
	}
	if err := f.Close(); err != nil {
		return err
	}
	return j.Give(state)
}

// fresh makes the new overlays, and gives the disks their second names.
func (j *job) fresh() error {
	for i, o := range j.overlays {
		frozen := j.store.File(j.mark.Files()[i])
		if err := os.Link(o.Disk.File, frozen); err != nil {
			return fmt.Errorf("link disk into the store: %w", err)
		}
		if err := disk.Overlay(o.File, frozen, "qcow2", o.Disk.Bytes); err != nil {
			return err
		}
		if err := j.Give(o.File); err != nil {
			return err
		}
	}
	return nil
}

// reserve makes the pages file and readies it for what has changed so far and a
// little more. The copy would take the same memory, but while the machine stands.
func (j *job) reserve() (err error) {
	if j.delta, err = pages.Create(j.file(store.Pages), j.region.Size); err != nil {
		return err
	}
	n := pages.Total(j.before)
	return j.delta.Reserve(n + n/8 + 1<<20)
}

// noRoom adds vm.ErrNoSpace to a failed write of QEMU's where the disk is full:
// QEMU calls that an I/O error like any other.
func noRoom(dir string, err error) error {
	const full = 1 << 20
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil && int64(st.Bavail)*st.Bsize < full {
		return fmt.Errorf("%w: %w", vm.ErrNoSpace, err)
	}
	return err
}

// disks closes the frozen disks to QEMU's user.
func (j *job) disks(context.Context) error {
	var errs []error
	for _, p := range j.mark.Files() {
		errs = append(errs, j.Take(j.store.File(p)))
	}
	return errors.Join(errs...)
}

// memory brings state and pages into their final form.
func (j *job) memory(ctx context.Context) error {
	s := &j.meta.Snapshot
	s.Template = s.ID
	if j.meta.Stream {
		return nil
	}
	state := filepath.Join(j.Dir, j.mark.StateFile())
	if err := j.Take(state); err != nil {
		return err
	}
	if err := os.Chmod(state, 0o600); err != nil {
		return err
	}
	if err := os.Rename(state, j.file(store.State)); err != nil {
		return fmt.Errorf("move state into the store: %w", err)
	}
	base, err := j.base()
	if err != nil {
		return err
	}
	if base != nil {
		defer base.Close()
	}
	if base != nil && j.stats.Data+j.stats.Zero <= j.region.Size/2 {
		s.Template, _ = j.Template.Split()
		return errors.Join(j.delta.DropZeros(base), j.delta.Seal())
	}
	// Most of the memory is its own: clones map that rather than copy it.
	if err := j.delta.Materialize(ctx, base, j.file(store.RAM)); err != nil {
		return err
	}
	return os.Remove(j.file(store.Pages))
}

// base is the memory that the process maps; nil when that is empty.
func (j *job) base() (*os.File, error) {
	if j.Template == "" {
		return nil, nil
	}
	return os.Open(j.store.File(j.Template))
}

// digest describes all files that a clone will read.
func (j *job) digest(ctx context.Context) error {
	m := &j.meta
	m.System = slices.Concat([]store.Path{m.Own(store.System)}, j.System)
	m.Workspace = slices.Concat([]store.Path{m.Own(store.Workspace)}, j.Workspace)
	parts := slices.Concat(m.System, m.Workspace, []store.Path{m.Own(store.State)})
	if !m.Stream {
		parts = append(parts, m.Own(store.VRAM), m.Template())
		if m.Snapshot.Template != m.Snapshot.ID {
			parts = append(parts, m.Own(store.Pages))
		}
	}
	s := &m.Snapshot
	for p, n := range map[string]*int64{
		store.RAM: &s.MemoryBytes, store.Pages: &s.MemoryBytes, store.VRAM: &s.StateBytes, store.State: &s.StateBytes,
		store.System: &s.DiskBytes, store.Workspace: &s.DiskBytes,
	} {
		*n += allocated(j.file(p))
	}
	return j.store.Seal(ctx, m, parts, s.Kept)
}

// allocated is a file's space on disk in bytes; 0 when it is not there.
func allocated(path string) int64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// DropFrozen removes from a machine's directory the names of disks that it stands
// on no more; disks are its tops.
func DropFrozen(dir string, disks []live.Disk) error {
	var errs []error
	for _, d := range disks {
		files, err := filepath.Glob(filepath.Join(dir, d.ID+"*.qcow2"))
		errs = append(errs, err)
		for _, f := range files {
			if f != d.File {
				errs = append(errs, os.Remove(f))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove frozen disks: %w", err)
	}
	return nil
}
