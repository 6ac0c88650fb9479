// Package store keeps snapshots on disk: DATA/templates/ID/FILE.
//
// A directory is made first and filled; meta.json is written last, and only with
// it the snapshot exists. Removing a snapshot removes its meta.json first. Files
// are shared: a meta.json names every file that its clones read, in whichever
// directory, and a machine's journal does the same. Collect removes what none of
// them names, so parents, snapshots and children can go in any order.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Store is one directory of snapshots. Safe for concurrent use.
type Store struct {
	dir  string
	mode fs.FileMode // of directories: QEMU's user passes through

	mu     sync.Mutex
	making map[vm.SnapshotID]bool
	pins   map[Path]int // files in use by what has no journal yet

	proven proven
}

// New returns the store in dir, which it makes at its first use. With shared,
// another user can reach the files whose names and modes allow it.
func New(dir string, shared bool) *Store {
	s := &Store{dir: dir, mode: 0o700, making: make(map[vm.SnapshotID]bool), pins: make(map[Path]int), proven: proven{settled: defaultSettled}}
	if shared {
		s.mode = 0o711
	}
	return s
}

// File is where a file of the store lies.
func (s *Store) File(p Path) string { return filepath.Join(s.dir, filepath.FromSlash(string(p))) }

// Begin makes room for a new snapshot, which is not collected until End.
// vm.ErrExists when there is, or was, one with this id of which something is left.
func (s *Store) Begin(id vm.SnapshotID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	dir := filepath.Join(s.dir, string(id))
	if err := os.MkdirAll(s.dir, s.mode); err != nil {
		return fmt.Errorf("make store: %w", err)
	}
	if err := os.Mkdir(dir, s.mode); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = vm.ErrExists
		}
		return fmt.Errorf("make snapshot %s: %w", id, err)
	}
	s.making[id] = true
	return nil
}

// End is called when Begin's work has gone well or badly.
func (s *Store) End(id vm.SnapshotID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.making, id)
}

// Commit makes a snapshot exist.
func (s *Store) Commit(m Meta) error {
	if err := m.Validate(); err != nil {
		return fmt.Errorf("describe snapshot %s: %w", m.Snapshot.ID, err)
	}
	return s.write(m)
}

func (s *Store) write(m Meta) error {
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("encode snapshot %s: %w", m.Snapshot.ID, err)
	}
	path := s.File(At(m.Snapshot.ID, metaFile))
	if m.Snapshot.Kept {
		if err := atomicfile.Write(path, append(b, '\n'), 0o600); err != nil {
			return err
		}
		return atomicfile.SyncDir(s.dir)
	}
	if err := os.WriteFile(path+atomicfile.Suffix, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write snapshot %s: %w", m.Snapshot.ID, err)
	}
	return os.Rename(path+atomicfile.Suffix, path)
}

// Get reads a snapshot; vm.ErrNotFound when there is none.
func (s *Store) Get(id vm.SnapshotID) (Meta, error) {
	if err := id.Validate(); err != nil {
		return Meta{}, err
	}
	b, err := os.ReadFile(s.File(At(id, metaFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return Meta{}, fmt.Errorf("snapshot %s: %w", id, vm.ErrNotFound)
	}
	if err != nil {
		return Meta{}, fmt.Errorf("read snapshot %s: %w", id, err)
	}
	m, err := parse(b)
	if err == nil && m.Snapshot.ID != id {
		err = fmt.Errorf("it is of %q", m.Snapshot.ID)
	}
	if err != nil {
		return Meta{}, fmt.Errorf("snapshot %s: %w: %s: %w", id, vm.ErrCorrupt, metaFile, err)
	}
	return m, nil
}

// Pin reads a snapshot and keeps all that it stands on until release, which may
// be called more than once.
func (s *Store) Pin(id vm.SnapshotID) (Meta, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, err := s.Get(id)
	if err != nil {
		return Meta{}, nil, err
	}
	needs := m.Needs()
	for _, p := range needs {
		s.pins[p]++
	}
	var once sync.Once
	return m, func() {
		once.Do(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, p := range needs {
				if s.pins[p]--; s.pins[p] == 0 {
					delete(s.pins, p)
				}
			}
		})
	}, nil
}

// List reads all snapshots, newest first. What cannot be read comes as an error
// beside the others.
func (s *Store) List() ([]Meta, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var (
		all  []Meta
		errs []error
	)
	for _, e := range entries {
		id := vm.SnapshotID(e.Name())
		if !e.IsDir() || id.Validate() != nil {
			continue
		}
		m, err := s.Get(id)
		switch {
		case err == nil:
			all = append(all, m)
		case !errors.Is(err, vm.ErrNotFound):
			errs = append(errs, err)
		}
	}
	slices.SortFunc(all, byAge)
	return all, errors.Join(errs...)
}

// Remove takes a snapshot out of the list. Collect removes its files. Idempotent.
func (s *Store) Remove(id vm.SnapshotID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	err := os.Remove(s.File(At(id, metaFile)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove snapshot %s: %w", id, err)
	}
	return atomicfile.SyncDir(filepath.Join(s.dir, string(id)))
}

func (s *Store) removeUnkept() error {
	all, err := s.List()
	errs := []error{err}
	for _, m := range all {
		if !m.Snapshot.Kept {
			errs = append(errs, s.Remove(m.Snapshot.ID))
		}
	}
	return errors.Join(errs...)
}

// scratch begins the names of directories that hold nothing of value.
const scratch = ".scratch-"

// Scratch makes a directory for work in progress, on the file system of the
// store. The caller removes it; after a crash Tidy does.
func (s *Store) Scratch() (string, error) {
	if err := os.MkdirAll(s.dir, s.mode); err != nil {
		return "", fmt.Errorf("make store: %w", err)
	}
	return os.MkdirTemp(s.dir, scratch)
}

// Tidy removes what a crash has left of work in progress, and takes all
// snapshots out of the list that were made for clones of one moment. For the
// start, before anything else.
func (s *Store) Tidy() error {
	left, err := filepath.Glob(filepath.Join(s.dir, scratch+"*"))
	errs := []error{err, s.removeUnkept()}
	for _, dir := range left {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}
