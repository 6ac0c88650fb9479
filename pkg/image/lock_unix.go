//go:build unix

package image

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// A flock is an advisory lock on a file; the kernel drops it when its process ends.
type flock struct{ f *os.File }

// lockPath locks path, making it when missing. With wait false it returns nil and no
// error when somebody else holds the lock.
func lockPath(path string, wait bool) (*flock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil {
		return &flock{f}, nil
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}

// unlock gives the lock back. It may be called on nil and twice.
func (l *flock) unlock() {
	if l != nil {
		l.f.Close()
	}
}
