//go:build linux

// Package frost has programs that nobody needs yet stand still, in a frozen
// control group: they keep their memory and take no time of a processor.
package frost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/deskfork/deskfork/internal/x/cgroup"
)

// limit is how long processes may take to stand still: one that waits for a disk
// does so first.
const limit = 10 * time.Second

// Group is a control group for programs that are to stand still.
type Group struct {
	dir  string
	file *os.File
}

// Open makes a group below that of this process. An error says that this process
// may not.
func Open(name string) (*Group, error) {
	own, err := cgroup.Own()
	if err != nil {
		return nil, err
	}
	return At(filepath.Join(own, name))
}

// At makes a group in a directory.
func At(dir string) (*Group, error) {
	f, err := cgroup.Make(dir)
	if err != nil {
		return nil, err
	}
	return &Group{dir: dir, file: f}, nil
}

// File is the group's directory, for starts in it; nil of no group.
func (g *Group) File() *os.File {
	if g == nil {
		return nil
	}
	return g.file
}

// Switch is the file that thaws the group when 0 is written to it.
func (g *Group) Switch() string { return filepath.Join(g.dir, cgroup.FreezeFile) }

// Free reports whether nothing lives in the group.
func (g *Group) Free() bool {
	s, err := cgroup.Look(g.dir)
	return err == nil && !s.Populated
}

// Still is a group that stands still.
type Still struct {
	dir   string
	was   cgroup.State
	watch *fsnotify.Watcher
}

// Freeze returns when all processes of the group stand still. With an error they
// go on.
func (g *Group) Freeze(ctx context.Context) (s *Still, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("freeze: not all processes stand still after %s", limit))
	defer cancel()
	watch, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch cgroup: %w", err)
	}
	s = &Still{dir: g.dir, watch: watch}
	defer func() {
		if err != nil {
			err = errors.Join(err, cgroup.Thaw(g.dir), watch.Close())
		}
	}()
	if err := watch.Add(filepath.Join(g.dir, cgroup.EventsFile)); err != nil {
		return nil, fmt.Errorf("watch cgroup: %w", err)
	}
	if err := cgroup.Freeze(g.dir); err != nil {
		return nil, err
	}
	for {
		if s.was, err = cgroup.Look(g.dir); err != nil || s.was.Frozen {
			return s, err
		}
		if err := s.changes(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *Still) changes(ctx context.Context) error {
	select {
	case _, ok := <-s.watch.Events:
		if !ok {
			return errors.New("watch cgroup: the watch has ended")
		}
		return nil
	case err := <-s.watch.Errors:
		return fmt.Errorf("watch cgroup: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Moves returns when the group does not stand as it stood: somebody has thawed it,
// or one of its processes has ended, killed as a rule with others who cannot notice
// before they are thawed. An error says that it cannot be told any more.
func (s *Still) Moves(ctx context.Context) error {
	for {
		now, err := cgroup.Look(s.dir)
		if err != nil || now != s.was {
			return err
		}
		if err := s.changes(ctx); err != nil {
			return err
		}
	}
}

// Thaw lets the group's processes go on.
func (s *Still) Thaw() error { return cgroup.Thaw(s.dir) }

// Close ends the watch.
func (s *Still) Close() { _ = s.watch.Close() } // it holds nothing to lose
