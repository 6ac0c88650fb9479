// Package graft puts a read-only file under a stretch of another process's
// memory.
//
// Clones share the memory file of their template copy-on-write. QEMU before 8.2
// opens such a file for writing even when it maps it private, so its user would
// need the right to write: and then one machine that breaks out could change
// the memory of every later clone. Here QEMU is started with an empty file of
// its own instead, is handed a descriptor that was opened for reading alone, and
// is made to call mmap(MAP_PRIVATE|MAP_FIXED) on it once, over ptrace(2), while
// it waits for its state. It never holds a writable descriptor of a template and
// may not open one; the template can belong to us with mode 0600.
//
// It needs the same right as reading and writing the memory of that process.
package graft

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrUnsupported says: this kind of processor is not known to the package.
var ErrUnsupported = errors.New("mapping into another process is not supported on this architecture")

// Descriptor finds the number under which process pid holds f.
func Descriptor(pid int, f *os.File) (int, error) {
	var want unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &want); err != nil {
		return 0, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("list descriptors of process %d: %w", pid, err)
	}
	for _, e := range entries {
		var st unix.Stat_t
		fd, err := strconv.Atoi(e.Name())
		if err == nil && unix.Stat(filepath.Join(dir, e.Name()), &st) == nil && st.Dev == want.Dev && st.Ino == want.Ino {
			return fd, nil
		}
	}
	return 0, fmt.Errorf("process %d does not hold %s", pid, f.Name())
}
