// Package cgroup puts each machine into a cgroup v2 of its own, with limits.
package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Head room of a machine's cgroup.
const (
	extraMiB = 512 // for QEMU itself: translated code, framebuffer, caches
	maxPids  = 256 // threads
)

// controllers are needed for limits.
func controllers() []string { return []string{"cpu", "memory", "pids"} }

// Probe reports why root cannot limit machines; nil when it can. It makes
// root and enables the controllers for its children.
func Probe(root string) error {
	if root == "" {
		return errors.New("no cgroup directory configured")
	}
	parent := filepath.Dir(root)
	var fs unix.Statfs_t
	if err := unix.Statfs(parent, &fs); err != nil {
		return fmt.Errorf("look at %s: %w", parent, err)
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("%s is not on a cgroup v2 file system", parent)
	}
	b, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read controllers: %w", err)
	}
	have := strings.Fields(string(b))
	for _, c := range controllers() {
		if !slices.Contains(have, c) {
			return fmt.Errorf("controller %s is missing in %s (there are: %s)", c, parent, strings.Join(have, " "))
		}
	}
	if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make cgroup: %w", err)
	}
	enable := []byte("+" + strings.Join(controllers(), " +"))
	for _, dir := range []string{parent, root} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), enable, 0); err != nil {
			return fmt.Errorf("enable controllers: %w", err)
		}
	}
	return nil
}

// Make makes the cgroup name below root, which Probe has found good, and
// returns its directory for a child process to be started in.
func Make(root, name string, s vm.Shape) (*os.File, error) {
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make cgroup: %w", err)
	}
	for file, value := range limits(s) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			return nil, fmt.Errorf("limit cgroup: %w", err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open cgroup: %w", err)
	}
	return f, nil
}

// limits: memory a little above the guest's, as many CPUs as it has.
func limits(s vm.Shape) map[string]string {
	const period = 100000 // µs
	return map[string]string{
		"memory.max": strconv.FormatInt(int64(s.MemoryMiB+extraMiB)<<20, 10),
		"cpu.max":    fmt.Sprintf("%d %d", (s.VCPUs*period)+period/2, period),
		"pids.max":   strconv.Itoa(maxPids),
	}
}

// Remove removes the cgroup name below root, if there is one. It waits for the
// kernel to notice that the last process has gone. An empty root has none.
func Remove(ctx context.Context, root, name string) error {
	if root == "" {
		return nil
	}
	return removeDir(ctx, filepath.Join(root, name))
}

func removeDir(ctx context.Context, dir string) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := unix.Rmdir(dir)
		if err == nil || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove cgroup %s: %w", dir, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("remove cgroup %s: %w", dir, ctx.Err())
		}
	}
}

// RemoveStrays removes the children of root that are not kept.
func RemoveStrays(ctx context.Context, root string, kept map[string]bool) error {
	if root == "" {
		return nil
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for stray cgroups: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() && !kept[e.Name()] {
			errs = append(errs, removeDir(ctx, filepath.Join(root, e.Name())))
		}
	}
	return errors.Join(errs...)
}
