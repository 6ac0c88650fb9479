//go:build unix

package image

import (
	"os"
	"path/filepath"
	"syscall"
)

// allocated adds up what the files in dir take on disk, in bytes.
func allocated(dir string) int64 {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var n int64
	for _, e := range entries {
		var st syscall.Stat_t
		if syscall.Lstat(filepath.Join(dir, e.Name()), &st) == nil {
			n += st.Blocks * 512
		}
	}
	return n
}
