package incarnation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm/qemu/cgroup"
)

// Remove takes away all of an incarnation, from any state that Create, Destroy
// or an earlier remove was cut off in: processes first, the journal last.
// known is the process of the journal, if it names one; the UUID finds it and
// any other in any case. Idempotent.
func Remove(ctx context.Context, h Home, known *proc.Process, cgroups string, trace func(step string)) error {
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"process", func() error { return killAll(ctx, h.UUID, known) }},
		{"runtime", func() error { return os.RemoveAll(h.Run) }},
		{"cgroup", func() error { return cgroup.Remove(ctx, cgroups, string(h.Inc)) }},
		{"files", func() error { return removeAllBut(h.Dir, journalFile) }},
		{"journal", func() error { return removeIfThere(h.File(journalFile)) }},
		{"directory", func() error { return removeIfThere(h.Dir) }},
		{"desktop", func() error { return RemoveIfEmpty(filepath.Dir(h.Dir)) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("remove %s of incarnation %s: %w", step.name, h.Inc, err)
		}
		trace(step.name)
	}
	return nil
}

// killAll ends every process with this UUID on its command line and waits.
func killAll(ctx context.Context, uuid string, known *proc.Process) error {
	found, err := proc.Find(uuid)
	if err != nil {
		return err
	}
	var errs []error
	if known != nil {
		errs = append(errs, known.Kill(ctx))
	}
	for _, pr := range found {
		errs = append(errs, pr.Kill(ctx))
		pr.Close()
	}
	return errors.Join(errs...)
}

// removeAllBut empties dir except for one file, so that the journal outlives
// what it speaks of. A temporary journal goes with the rest.
func removeAllBut(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.Name() != keep {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if len(errs) > 0 {
		errs = append(errs, atomicfile.SyncDir(dir))
	}
	return errors.Join(errs...)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// RemoveIfEmpty leaves the directory of a desktop that has other incarnations.
func RemoveIfEmpty(dir string) error {
	err := os.Remove(dir)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// RemoveStrays takes away runtime directories and cgroups of incarnations that
// are not kept.
func (r Root) RemoveStrays(ctx context.Context, cgroups string, kept map[string]bool) error {
	var errs []error
	entries, err := os.ReadDir(r.Sockets())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, fmt.Errorf("look for stray sockets: %w", err))
	}
	for _, e := range entries {
		if !kept[e.Name()] && !strings.HasPrefix(e.Name(), ".") {
			errs = append(errs, os.RemoveAll(filepath.Join(r.Sockets(), e.Name())))
		}
	}
	errs = append(errs, cgroup.RemoveStrays(ctx, cgroups, kept))
	return errors.Join(errs...)
}
