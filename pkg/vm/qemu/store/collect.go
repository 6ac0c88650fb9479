package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Collect removes the files that no listed snapshot, nothing pinned, and nothing
// in what machines returns needs. When it is not known what a snapshot needs, or
// machines fails, nothing is removed.
//
// machines is called with the store locked: who makes a machine stand on a
// snapshot pins it first and journals second.
func (s *Store) Collect(machines func() ([]Path, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed, err := s.List()
	if err != nil {
		return fmt.Errorf("nothing collected, for it is not known what these need: %w", err)
	}
	needed, err := machines()
	if err != nil {
		return fmt.Errorf("nothing collected, for it is not known what machines need: %w", err)
	}
	keep := make(map[Path]bool)
	for _, p := range needed {
		keep[p] = true
	}
	for p := range s.pins {
		keep[p] = true
	}
	for _, m := range listed {
		keep[m.Own(metaFile)] = true
		for p := range m.Parts {
			keep[p] = true
		}
	}
	return s.sweep(keep)
}

func (s *Store) sweep(keep map[Path]bool) error {
	dirs, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("collect snapshots: %w", err)
	}
	var errs []error
	for _, d := range dirs {
		id := vm.SnapshotID(d.Name())
		if !d.IsDir() || id.Validate() != nil || s.making[id] {
			continue
		}
		dir := filepath.Join(s.dir, d.Name())
		files, err := os.ReadDir(dir)
		errs = append(errs, err)
		left := 0
		for _, f := range files {
			if keep[At(id, f.Name())] {
				left++
				continue
			}
			errs = append(errs, os.RemoveAll(filepath.Join(dir, f.Name())))
		}
		if left == 0 && err == nil {
			errs = append(errs, os.Remove(dir))
		}
	}
	return errors.Join(errs...)
}
