package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/deskfork/deskfork/pkg/vm"
)

// blockSize is the unit of a file's allocation, whatever the file system's.
const blockSize = 512

// Kept lists what has files in the store, with what these take on disk. What goes
// meanwhile is left out.
func (s *Store) Kept(ctx context.Context) ([]vm.Kept, error) {
	dirs, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look into the store: %w", err)
	}
	var all []vm.Kept
	for _, d := range dirs {
		k := vm.Kept{Snapshot: vm.SnapshotID(d.Name())}
		if !d.IsDir() || k.Snapshot.Validate() != nil {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		files, err := os.ReadDir(filepath.Join(s.dir, d.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look into the store: %w", err)
		}
		for _, f := range files {
			k.Listed = k.Listed || f.Name() == metaFile
			switch n := allocated(f); f.Name() {
			case RAM, Pages, VRAM, State:
				k.MemoryBytes += n
			case System, Workspace:
				k.DiskBytes += n
			}
		}
		if k != (vm.Kept{Snapshot: k.Snapshot}) {
			all = append(all, k)
		}
	}
	return all, nil
}

// allocated is what an entry takes on disk, in bytes; 0 when it is gone.
func allocated(e fs.DirEntry) int64 {
	info, err := e.Info()
	if err != nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockSize
	}
	return info.Size()
}
