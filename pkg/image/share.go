package image

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Share gives the store's group the right to read an image, so that a
// hypervisor that runs as another user can open it. An image that this process
// may not change stays as it is: then the two are of one user already.
func (s *Store) Share(d Digest) error {
	dir := s.Path(d)
	if s.group == 0 {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("share image: %w", err)
	}
	paths := []string{s.dir, dir}
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return fmt.Errorf("share image: %w", err)
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Gid) == s.group {
			continue
		}
		if err := os.Chown(path, -1, s.group); err != nil && !errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("share image: %w", err)
		}
	}
	return nil
}
