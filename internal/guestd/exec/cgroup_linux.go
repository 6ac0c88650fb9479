package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	groupfs "github.com/deskfork/deskfork/internal/x/cgroup"
)

// cgroup is the control group of one exec.
type cgroup struct {
	path string
	dir  *os.File
}

func newCgroup(parent, name string) (*cgroup, error) {
	path := filepath.Join(parent, "exec-"+name)
	if err := os.Mkdir(path, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open cgroup: %w", err), os.Remove(path))
	}
	return &cgroup{path: path, dir: dir}, nil
}

// empty reports whether no process lives in the group.
func (g *cgroup) empty() bool {
	if g == nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join(g.path, "cgroup.events"))
	return err == nil && bytes.Contains(b, []byte("populated 0\n"))
}

// populated reports whether a process lives in the group; in one that is gone none.
func (g *cgroup) populated() bool {
	b, err := os.ReadFile(filepath.Join(g.path, "cgroup.events"))
	return err == nil && !bytes.Contains(b, []byte("populated 0\n")) || err != nil && !errors.Is(err, fs.ErrNotExist)
}

// remove deletes the group and reports whether it is gone. While processes live
// in it, it cannot be.
func (g *cgroup) remove() bool {
	g.dir.Close()
	err := os.Remove(g.path)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}

func (g *cgroup) kill() bool {
	return g != nil && os.WriteFile(filepath.Join(g.path, "cgroup.kill"), []byte("1"), 0) == nil
}

// groups lends a control group to each exec. One that is given back empty is
// lent again: to make and to remove one costs more than a short program.
type groups struct {
	parent string // empty: there are none

	mu    sync.Mutex
	made  int
	free  []*cgroup
	stale []*cgroup // where background processes live
}

// take returns an empty group; nil where there are none, and with an error.
func (s *groups) take() (*cgroup, error) {
	if s.parent == "" {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweepLocked()
	if n := len(s.free); n > 0 {
		g := s.free[n-1]
		s.free = s.free[:n-1]
		return g, nil
	}
	s.made++
	return newCgroup(s.parent, strconv.Itoa(os.Getpid())+"-"+strconv.Itoa(s.made))
}

// give takes a group back, now or, while background processes live in it, at
// one of the next starts.
func (s *groups) give(g *cgroup, empty bool) {
	if g == nil {
		return
	}
	const spare = 8
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case empty && len(s.free) < spare:
		s.free = append(s.free, g)
	case !g.remove():
		s.stale = append(s.stale, g)
	}
}

// sweepLocked tries a few of the groups that could not be taken back before.
func (s *groups) sweepLocked() {
	const few = 8
	for range min(few, len(s.stale)) {
		g := s.stale[0]
		s.stale = s.stale[1:]
		if !g.remove() {
			s.stale = append(s.stale, g)
		}
	}
}

// close removes what can be removed.
func (s *groups) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range append(s.free, s.stale...) {
		g.remove()
	}
	s.free, s.stale = nil, nil
}

// UsableCgroup returns the directory of this process's own cgroup v2 when
// children can be made in it and killed as a whole, else "".
func UsableCgroup() string {
	dir, err := groupfs.Own()
	if err != nil {
		return ""
	}
	g, err := newCgroup(dir, "probe"+strconv.Itoa(os.Getpid()))
	if err != nil {
		return ""
	}
	works := g.kill()
	if !g.remove() || !works {
		return ""
	}
	// What a former guestd left; groups that are in use refuse.
	old, _ := filepath.Glob(filepath.Join(dir, "exec-*"))
	for _, path := range old {
		_ = os.Remove(path)
	}
	return dir
}
