package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
)

// dataDir is where images, machines and the token lie by default.
func dataDir() string {
	if dir := os.Getenv("DESKFORK_DATA"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/deskfork"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "deskfork")
	}
	return filepath.Join(os.Getenv("HOME"), ".local", "share", "deskfork")
}

// ownRun holds the sockets of an ordinary user's machines, in the data directory.
const ownRun = "run"

// runtimeDir is where the sockets of a data directory's machines lie by default.
// An ordinary user cannot write to /run, and /run/user/UID goes at the end of the
// last session, while machines run on: it is for data directories alone whose
// path is too long for a socket, and for machines that have their sockets there
// already.
func runtimeDir(dataDir string) string {
	if os.Geteuid() == 0 {
		return "/run/deskfork"
	}
	own := filepath.Join(dataDir, ownRun)
	session := os.Getenv("XDG_RUNTIME_DIR")
	if session == "" {
		return own
	}
	session = filepath.Join(session, "deskfork")
	used, _ := filepath.Glob(filepath.Join(session, "vm", "*")) // the pattern is well formed
	if len(used) > 0 || len(own) > qemu.MaxRuntimeDir {
		return session
	}
	return own
}

// dirMode is that of the directories: others may pass, for QEMU's user has to
// reach what is its own, and no more.
const dirMode = 0o711

// takeDirs makes the directories of data and sockets, and takes both for this
// process until release: who serves them removes from them what he does not know.
func takeDirs(dataDir, runtimeDir string) (release func() error, err error) {
	openUmask()
	var all []func() error
	release = func() error {
		var errs []error
		for _, end := range slices.Backward(all) {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}
	for _, dir := range slices.Compact([]string{dataDir, filepath.Clean(runtimeDir)}) {
		err := makeDir(dir, lockFile, host.DatabaseName, imagesDir, "vm")
		if err != nil {
			return nil, errors.Join(err, release())
		}
		end, err := lock(dir)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		all = append(all, end)
	}
	return release, nil
}

// openUmask lets others pass where this program's directories say so, whatever
// the shell that started it forbids to all files: QEMU's user is one of them. What
// they may not see has its own mode.
func openUmask() { syscall.Umask(0o022) }

// makeDir makes a directory of ours. From one that is ours already, being empty or
// having one of our entries in it, it takes what others may do there beyond
// passing; to root's, through which QEMU's user has to come, it adds that.
func makeDir(dir string, ours ...string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	mode := info.Mode().Perm()
	want := mode & dirMode
	if os.Geteuid() == 0 {
		want |= 0o011
	}
	if mode == want {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("look into directory: %w", err)
	}
	entries, err := f.Readdirnames(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("look into directory: %w", err)
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(n string) bool { return slices.Contains(ours, n) }) {
		return nil // somebody's own, such as /tmp: doctor tells when it is open to all
	}
	if err := os.Chmod(dir, want); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("set mode of directory: %w", err)
	}
	return nil
}

// socketDir is the directory of sockets that was asked for, or the default one.
func (f *serveFlags) socketDir(dataDir string) string {
	return cmp.Or(f.runtimeDir, runtimeDir(dataDir))
}
