package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/deskfork/deskfork/pkg/api"
)

// lockFile in the data directory, and in that of the sockets, is locked while a
// daemon runs, and holds its process id. The kernel gives the lock back however
// the daemon ends.
const lockFile = "vmhost.pid"

// lock takes a directory for this process until release.
func lock(dir string) (release func() error, _ error) {
	name := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", name, err)
		}
		raw, _ := io.ReadAll(io.LimitReader(f, 32)) // the number is a help, no more
		p := api.Errorf(api.CodeConflict, "another vmhost serve (pid %s) uses %s", strings.TrimSpace(string(raw)), dir)
		p.Hint = "stop it, or name another --data-dir, --runtime-dir and --listen"
		return nil, p
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write %s: %w", name, err), f.Close())
	}
	return func() error {
		// A child that was forked and has not begun its program yet holds the file
		// too: closing it here would not be enough.
		return errors.Join(syscall.Flock(int(f.Fd()), syscall.LOCK_UN), f.Close())
	}, nil
}
