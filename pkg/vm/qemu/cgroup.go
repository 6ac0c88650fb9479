package qemu

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
	cgroupExtraMiB = 512 // for QEMU itself: translated code, framebuffer, caches
	cgroupPids     = 256 // threads
)

// cgroupControllers are needed for limits.
func cgroupControllers() []string { return []string{"cpu", "memory", "pids"} }

// probeCgroup reports why root cannot limit machines; nil when it can. It makes
// root and enables the controllers for its children.
func probeCgroup(root string) error {
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
	for _, c := range cgroupControllers() {
		if !slices.Contains(have, c) {
			return fmt.Errorf("controller %s is missing in %s (there are: %s)", c, parent, strings.Join(have, " "))
		}
	}
	if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("make cgroup: %w", err)
	}
	enable := []byte("+" + strings.Join(cgroupControllers(), " +"))
	for _, dir := range []string{parent, root} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), enable, 0); err != nil {
			return fmt.Errorf("enable controllers: %w", err)
		}
	}
	return nil
}

// makeCgroup makes the machine's cgroup where the host has working ones;
// elsewhere it does nothing, and the probe says so.
func (c *creation) makeCgroup(context.Context) error {
	if !c.p.cgroups() {
		return nil
	}
	dir := filepath.Join(c.p.cfg.CgroupRoot, string(c.lay.inc))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	for name, value := range cgroupLimits(c.spec.Shape) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
			return fmt.Errorf("limit cgroup: %w", err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open cgroup: %w", err)
	}
	c.cgroup = f
	return nil
}

// cgroupLimits: memory a little above the guest's, as many CPUs as it has.
func cgroupLimits(s vm.Shape) map[string]string {
	const period = 100000 // µs
	return map[string]string{
		"memory.max": strconv.FormatInt(int64(s.MemoryMiB+cgroupExtraMiB)<<20, 10),
		"cpu.max":    fmt.Sprintf("%d %d", (s.VCPUs*period)+period/2, period),
		"pids.max":   strconv.Itoa(cgroupPids),
	}
}

func (p *Provider) removeCgroup(ctx context.Context, l layout) error {
	if p.cfg.CgroupRoot == "" {
		return nil
	}
	return removeCgroupDir(ctx, filepath.Join(p.cfg.CgroupRoot, string(l.inc)))
}

// removeCgroupDir waits for the kernel to notice that the last process has gone.
func removeCgroupDir(ctx context.Context, dir string) error {
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

func (p *Provider) removeStrayCgroups(ctx context.Context, kept map[string]bool) error {
	if p.cfg.CgroupRoot == "" {
		return nil
	}
	entries, err := os.ReadDir(p.cfg.CgroupRoot)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for stray cgroups: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() && !kept[e.Name()] {
			errs = append(errs, removeCgroupDir(ctx, filepath.Join(p.cfg.CgroupRoot, e.Name())))
		}
	}
	return errors.Join(errs...)
}
