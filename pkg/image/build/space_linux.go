package build

import (
	"fmt"
	"syscall"
)

// freeBytes is what an ordinary user may still write to the file system of path.
func freeBytes(path string) (int64, error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("ask free space of %s: %w", path, err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}
