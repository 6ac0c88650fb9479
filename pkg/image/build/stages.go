package build

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/pkg/image"
)

const (
	mib = 1 << 20

	// archiveMiB is room for fetched packages and apt's lists beside the tree.
	archiveMiB = 1024
)

func (r *run) bootstrap(ctx context.Context) error {
	if err := r.need(StageBootstrap, 2*r.req.Recipe.Disk.ContentMiB*mib+archiveMiB*mib); err != nil {
		return err
	}
	cache := ""
	if r.c.CacheDir != "" {
		cache = filepath.Join(r.c.CacheDir, r.req.Recipe.Debian.Suite)
		if err := os.MkdirAll(cache, 0o755); err != nil {
			return fmt.Errorf("make package cache: %w", err)
		}
	}
	args := r.req.Recipe.bootstrapArgs(r.root(), r.req.Mirrors)
	return r.box.run(ctx, "bootstrap", r.env("CACHE="+cache), args...)
}

func (r *run) customise(ctx context.Context) error {
	guest, err := r.guestBinaries()
	if err != nil {
		return err
	}
	sources := strings.Join(r.req.Recipe.sources(Mirrors{}), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(r.work, "sources.list"), []byte(sources), 0o644); err != nil {
		return fmt.Errorf("write sources.list: %w", err)
	}
	err = r.box.run(ctx, "customise", r.env(
		"RECIPE="+r.req.Recipe.Dir, "OVERLAY="+filepath.Join(r.req.Recipe.Dir, OverlayDir),
		"GUESTD="+guest.Guestd, "GUESTD_PATH="+guestdPath, "HELPER="+guest.Helper, "HELPER_PATH="+helperPath,
	), r.req.Recipe.Hooks...)
	if err != nil {
		return err
	}
	return os.Rename(filepath.Join(r.work, image.PackagesFile), r.draft.Path(image.PackagesFile))
}

// guestBinaries makes the paths of the guest binaries absolute: scripts run in /.
func (r *run) guestBinaries() (GuestBinaries, error) {
	guestd, err1 := filepath.Abs(r.req.Guest.Guestd)
	helper, err2 := filepath.Abs(r.req.Guest.Helper)
	return GuestBinaries{Guestd: guestd, Helper: helper}, errors.Join(err1, err2)
}

func (r *run) kernel(ctx context.Context) error {
	version, err := kernelVersion(r.root())
	if err != nil {
		return err
	}
	entries, err := initramfs(r.root(), version, r.req.Recipe.Kernel.Modules)
	if err != nil {
		return err
	}
	var initrd bytes.Buffer
	if err := writeCPIO(&initrd, entries, r.req.Recipe.Epoch.Unix()); err != nil {
		return err
	}
	if err := os.WriteFile(r.draft.Path(image.InitrdFile), initrd.Bytes(), 0o640); err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	kernel, err := os.ReadFile(filepath.Join(r.root(), "boot", "vmlinuz-"+version))
	if err != nil {
		return fmt.Errorf("read kernel: %w", err)
	}
	unpacked, err := vmlinux(ctx, kernel)
	switch {
	case err == nil:
		kernel = unpacked
	case !errors.Is(err, errNoVmlinux): // such a kernel boots too, only later
		return err
	}
	if err := os.WriteFile(r.draft.Path(image.KernelFile), kernel, 0o640); err != nil {
		return fmt.Errorf("write kernel: %w", err)
	}
	r.manifest.Boot.KernelVersion = version
	return nil
}

func (r *run) pack(ctx context.Context) error {
	if err := r.box.run(ctx, "list", r.env()); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(r.work, "tree.list"))
	if err != nil {
		return fmt.Errorf("read tree: %w", err)
	}
	nodes, err := parseTree(data)
	if err != nil {
		return err
	}
	disk := r.req.Recipe.Disk
	size := treeSize(nodes)
	if size > disk.SizeMiB*mib*9/10 {
		return fmt.Errorf("disk.size_mib of %d is too small for %d MiB of files: %w", disk.SizeMiB, size/mib, image.ErrBadRecipe)
	}
	if err := r.need(StagePack, size+size/10); err != nil {
		return err
	}
	if err := readCapabilities(nodes, r.root()); err != nil {
		return err
	}
	if err := r.writeDiskScript(nodes); err != nil {
		return err
	}
	epoch := strconv.FormatInt(r.req.Recipe.Epoch.Unix(), 10)
	return r.box.run(ctx, "pack", r.env(
		"DISK="+r.draft.Path(image.DiskFileRaw), "SIZE_MIB="+strconv.FormatInt(disk.SizeMiB, 10),
		"LABEL="+disk.Label, "UUID="+disk.UUID, "HASH_SEED="+disk.HashSeed, "E2FSPROGS_FAKE_TIME="+epoch,
	))
}

func (r *run) writeDiskScript(nodes []node) error {
	f, err := os.Create(filepath.Join(r.work, "disk.cmds"))
	if err != nil {
		return fmt.Errorf("write disk script: %w", err)
	}
	w := bufio.NewWriter(f)
	err = diskScript(w, nodes, r.root(), r.req.Recipe.Epoch.Unix())
	if err = errors.Join(err, w.Flush(), f.Close()); err != nil {
		return fmt.Errorf("write disk script: %w", err)
	}
	return nil
}

func (r *run) digest(ctx context.Context) error {
	recipe := r.req.Recipe
	width, height, err := recipe.display()
	if err != nil {
		return err
	}
	m := &r.manifest
	m.Name, m.Tag = recipe.Name, recipe.Tag
	m.Disk.Format = image.FormatRaw
	m.Boot.Cmdline = strings.Join(strings.Fields(recipe.Kernel.Cmdline), " ")
	m.Guest = image.Guest{
		OS: recipe.Guest.OS, Arch: "amd64", User: recipe.Guest.User, UID: recipe.Guest.UID,
		Width: width, Height: height, Park: image.Park(recipe.Guest.Park),
	}
	m.Build = image.Build{
		Recipe: r.recipeDigest, Description: recipe.Description, SourceDate: recipe.Epoch.UTC(),
		Tools:       map[string]string{"builder": strconv.Itoa(Version), "go": runtime.Version()},
		GuestBinary: make(map[string]image.Digest),
	}
	for inGuest, path := range r.req.Guest.files() {
		f, err := image.FileDigest(ctx, path)
		if err != nil {
			return err
		}
		m.Build.GuestBinary[inGuest] = f.Digest
	}
	r.toolVersions(ctx)
	*m, err = r.draft.Digest(ctx, *m)
	return err
}

func (r *run) seal(ctx context.Context) error {
	r.manifest.Created = time.Now().UTC().Truncate(time.Second)
	r.manifest.Build.Seconds = time.Since(r.began).Round(time.Second / 10).Seconds()
	m, err := r.draft.Seal(ctx, r.manifest)
	r.manifest = m
	return err
}

// env is the environment of a script.
func (r *run) env(more ...string) []string {
	epoch := strconv.FormatInt(r.req.Recipe.Epoch.Unix(), 10)
	return append([]string{"ROOT=" + r.root(), "WORK=" + r.work, "SOURCE_DATE_EPOCH=" + epoch}, more...)
}

// need fails when the store's file system has less than n bytes left.
func (r *run) need(s Stage, n int64) error {
	free, err := freeBytes(r.work)
	if err != nil {
		return err
	}
	if free < n {
		return &image.NoSpaceError{Stage: string(s), Path: r.c.Store.Dir(), Need: n, Free: free}
	}
	return nil
}

// diskFull makes a NoSpaceError of an error that says that the disk is full.
func (r *run) diskFull(s Stage, err error) error {
	var script *scriptError
	full := errors.Is(err, syscall.ENOSPC) ||
		errors.As(err, &script) && strings.Contains(script.output, "No space left on device")
	if !full || errors.Is(err, image.ErrNoSpace) {
		return err
	}
	free, _ := freeBytes(r.c.Store.Dir())
	return &image.NoSpaceError{Stage: string(s), Path: r.c.Store.Dir(), Free: free, Err: err}
}
