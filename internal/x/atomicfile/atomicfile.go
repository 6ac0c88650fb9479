// Package atomicfile writes files that are either old or new, never half:
// temporary name, fsync, rename, fsync of the directory.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Suffix ends the temporary names; what bears it after a crash is garbage.
const Suffix = ".tmp"

// Write puts data into path with exactly this mode. When it returns nil the
// file survives a crash of the host; otherwise path is as it was before, or
// new but perhaps not durable when only the last sync went wrong.
func Write(path string, data []byte, mode fs.FileMode) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*"+Suffix)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = errors.Join(fill(tmp, data, mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, os.Remove(tmp.Name())))
	}
	return SyncDir(dir)
}

func fill(f *os.File, data []byte, mode fs.FileMode) error {
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDir makes the entries of a directory survive a crash of the host.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}
