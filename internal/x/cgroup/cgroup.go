//go:build linux

// Package cgroup finds control groups of version 2, hands them to users, and
// freezes them.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// root is where the hierarchy is mounted.
const root = "/sys/fs/cgroup"

// Names of files in a group's directory.
const (
	FreezeFile = "cgroup.freeze" // 1: frozen, 0: not
	EventsFile = "cgroup.events" // its state, as it is; changes are seen by inotify(7)
	procsFile  = "cgroup.procs"
)

// Own returns the directory of the calling process's group; an error where the
// process is in none but the root.
func Own() (string, error) {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", fmt.Errorf("find own cgroup: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if own, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && own != "/" {
			return filepath.Join(root, own), nil
		}
	}
	return "", errors.New("find own cgroup: this process is in no group of version 2 but the root")
}

// Make makes a group if it is not there, and opens its directory, for starts of
// processes in it.
func Make(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return f, nil
}

// Delegate gives a group to a user, who may then make groups below it and start
// and move processes there: cgroups(7), "delegation".
func Delegate(dir string, uid, gid int) error {
	for _, name := range []string{"", procsFile, "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, name), uid, gid); err != nil {
			return fmt.Errorf("delegate cgroup: %w", err)
		}
	}
	return nil
}

// Freeze has the processes of a group, and of those below it, stand still as soon
// as they leave the kernel. What ends them for sure still does; other signals wait.
func Freeze(dir string) error { return set(dir, "1") }

// Thaw lets them go on.
func Thaw(dir string) error { return set(dir, "0") }

func set(dir, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, FreezeFile), os.O_WRONLY, 0) // it makes no file where there is no group
	if err != nil {
		return fmt.Errorf("freeze or thaw: %w", err)
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// ThawBelow thaws the groups that lie right below one.
func ThawBelow(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*", FreezeFile))
	for _, file := range files {
		if e := Thaw(filepath.Dir(file)); !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// State is what a group looks like.
type State struct {
	Populated bool   // processes live in it or below it
	Frozen    bool   // all of them stand still
	Processes string // the numbers of its own, each on a line
}

// Look reads a group's state.
func Look(dir string) (State, error) {
	events, err := os.ReadFile(filepath.Join(dir, EventsFile))
	if err != nil {
		return State{}, fmt.Errorf("look at cgroup: %w", err)
	}
	procs, err := os.ReadFile(filepath.Join(dir, procsFile))
	if err != nil {
		return State{}, fmt.Errorf("look at cgroup: %w", err)
	}
	s := State{Processes: string(procs)}
	for line := range strings.Lines(string(events)) {
		switch strings.TrimSpace(line) {
		case "populated 1":
			s.Populated = true
		case "frozen 1":
			s.Frozen = true
		}
	}
	return s, nil
}
