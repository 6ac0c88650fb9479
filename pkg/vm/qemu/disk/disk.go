// Package disk makes the disks of a machine with qemu-img and mke2fs.
package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Owner is the user of the guest who owns a fresh file system's root.
const Owner = 1000

// Tools are the programs used. Safe for concurrent use.
type Tools struct {
	QEMUImg string
	Mke2fs  string
}

// Create makes the qcow2 file at path as d describes it. When it fails, path
// may exist and be wrong. vm.ErrNoSpace when the host's disk is full.
func (t Tools) Create(ctx context.Context, d vm.Disk, path string) error {
	if d.Base != "" {
		return t.overlay(ctx, d, path)
	}
	if d.Source != "" {
		return t.filled(ctx, d, path)
	}
	if d.Label == "" {
		return t.run(ctx, t.QEMUImg, "create", "-q", "-f", "qcow2", path, mib(d.SizeMiB))
	}
	return t.formatted(ctx, d, path)
}

func (t Tools) overlay(ctx context.Context, d vm.Disk, path string) error {
	if _, err := os.Stat(d.Base); err != nil {
		return fmt.Errorf("look for base image: %w", err)
	}
	args := []string{"create", "-q", "-f", "qcow2", "-F", d.BaseFormat, "-b", d.Base, path}
	if d.SizeMiB > 0 {
		args = append(args, mib(d.SizeMiB))
	}
	return t.run(ctx, t.QEMUImg, args...)
}

// filled takes what is in a file of ours: one that is a disk already as it is, of a
// raw one a copy.
func (t Tools) filled(ctx context.Context, d vm.Disk, path string) error {
	if d.Filled {
		return t.take(ctx, d, path)
	}
	info, err := os.Stat(d.Source)
	if err != nil {
		return fmt.Errorf("look for the disk's content: %w", err)
	}
	if info.Size() != d.SizeMiB<<20 {
		return fmt.Errorf("%w: a disk of %d MiB whose content has %d bytes", vm.ErrInvalid, d.SizeMiB, info.Size())
	}
	return t.run(ctx, t.QEMUImg, "convert", "-q", "-f", "raw", "-O", "qcow2", d.Source, path)
}

func (t Tools) take(ctx context.Context, d vm.Disk, path string) error {
	h, err := Inspect(d.Source)
	if err != nil {
		return err
	}
	if h.Backing || h.Bytes != d.SizeMiB<<20 {
		return fmt.Errorf("%w: a disk of %d MiB that is filled with one of %d bytes, of which some lies elsewhere: %v", vm.ErrInvalid, d.SizeMiB, h.Bytes, h.Backing)
	}
	err = os.Rename(d.Source, path)
	if errors.Is(err, syscall.EXDEV) {
		err = t.Flatten(ctx, d.Source, "", "", path)
		if err == nil {
			err = os.Remove(d.Source)
		}
	}
	if err != nil {
		return fmt.Errorf("take filled disk: %w", noSpace(err, ""))
	}
	return nil
}

// formatted goes by way of a sparse raw file, for mke2fs knows no qcow2. The
// tables are left to the guest's kernel (lazy), so that this takes
// milliseconds whatever the size.
func (t Tools) formatted(ctx context.Context, d vm.Disk, path string) error {
	raw := path + ".raw"
	err := sparse(raw, d.SizeMiB<<20)
	if err == nil {
		err = t.run(ctx, t.Mke2fs, "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-L", d.Label,
			"-E", fmt.Sprintf("root_owner=%d:%d,lazy_itable_init=1,lazy_journal_init=1,nodiscard", Owner, Owner), raw)
	}
	if err == nil {
		err = t.run(ctx, t.QEMUImg, "convert", "-q", "-f", "raw", "-O", "qcow2", raw, path)
	}
	if rmErr := os.Remove(raw); rmErr != nil && !errors.Is(rmErr, os.ErrNotExist) {
		err = errors.Join(err, rmErr)
	}
	return err
}

func sparse(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make raw disk: %w", noSpace(err, ""))
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return fmt.Errorf("make raw disk: %w", noSpace(err, ""))
	}
	return nil
}

func mib(n int64) string { return strconv.FormatInt(n, 10) + "M" }

func (t Tools) run(ctx context.Context, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	text := strings.TrimSpace(out.String())
	return fmt.Errorf("run %s %s: %w: %s", program, args[0], noSpace(err, text), text)
}

// noSpace adds vm.ErrNoSpace where err or a program's words say so.
func noSpace(err error, text string) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		strings.Contains(text, "No space left on device") || strings.Contains(text, "Disk quota exceeded") {
		return fmt.Errorf("%w: %w", vm.ErrNoSpace, err)
	}
	return err
}

// Flatten writes what the qcow2 file at path holds beyond base into one new
// qcow2 file; an empty base stands for everything.
func (t Tools) Flatten(ctx context.Context, path, base, format, out string) error {
	args := []string{"convert", "-q", "-f", "qcow2", "-O", "qcow2"}
	if base != "" {
		args = append(args, "-B", base, "-F", format)
	}
	return t.run(ctx, t.QEMUImg, append(args, path, out)...)
}

// Rebase makes base the backing file of the qcow2 file at path, whose data stays
// as it is.
func (t Tools) Rebase(ctx context.Context, path, base, format string) error {
	return t.run(ctx, t.QEMUImg, "rebase", "-q", "-u", "-f", "qcow2", "-F", format, "-b", base, path)
}
