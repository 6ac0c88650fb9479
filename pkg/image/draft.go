package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Draft is an image in the making: a directory that no lookup finds until [Draft.Seal]
// makes it an image in one step. It belongs to one goroutine. A draft whose process dies
// is removed when the store is next opened.
type Draft struct {
	store *Store
	dir   string
	lock  *flock
}

// Draft begins an image. The caller must end it with Seal or Abort.
func (s *Store) Draft() (*Draft, error) {
	l, err := s.lock() // between making the directory and locking it nobody may collect
	if err != nil {
		return nil, err
	}
	defer l.unlock()
	dir, err := os.MkdirTemp(s.dir, draftPrefix)
	if err != nil {
		return nil, fmt.Errorf("begin image: %w", err)
	}
	own, err := lockPath(filepath.Join(dir, draftLock), false)
	if err == nil && own == nil {
		err = errors.New("fresh draft is locked")
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("begin image: %w", err)
	}
	return &Draft{store: s, dir: dir, lock: own}, nil
}

// Path is the absolute path of a file of the draft. Disk, kernel and initramfs go by the
// names of this package; everything but these and PackagesFile is removed by Seal.
func (d *Draft) Path(name string) string { return filepath.Join(d.dir, name) }

// Abort removes the draft. It does nothing after Seal, and may be called twice.
func (d *Draft) Abort() error {
	if d.dir == "" {
		return nil
	}
	err := d.store.removeAll(d.dir)
	d.lock.unlock()
	d.dir = ""
	if err != nil {
		return fmt.Errorf("abort image: %w", err)
	}
	return nil
}

// Digest hashes disk, kernel and initramfs and returns m with sizes and digests filled in.
// m.Disk.Format must be set.
func (d *Draft) Digest(ctx context.Context, m Manifest) (Manifest, error) {
	file := m.Disk.Format.File()
	if file == "" {
		return m, fmt.Errorf("digest image: disk format %q: %w", m.Disk.Format, ErrBadManifest)
	}
	var err error
	if m.Disk.File, err = DiskDigest(ctx, d.Path(file)); err != nil {
		return m, fmt.Errorf("digest image: %w", err)
	}
	if m.Boot.Kernel, err = FileDigest(ctx, d.Path(KernelFile)); err != nil {
		return m, fmt.Errorf("digest image: %w", err)
	}
	if m.Boot.Initrd, err = FileDigest(ctx, d.Path(InitrdFile)); err != nil {
		return m, fmt.Errorf("digest image: %w", err)
	}
	if m.Disk.Format == FormatRaw {
		m.Disk.VirtualSize = m.Disk.Size
	}
	m.Version = ManifestVersion
	m.Digest = m.ComputeDigest()
	return m, nil
}

// Seal makes the draft the image m, as returned by Digest, and points m's name and tag at
// it. When the store holds an image of that digest already and Verify finds it sound, that
// one stays, only the tag moves, and its manifest is returned; a corrupt one is replaced.
// After an error the store is as before and the draft can still be aborted.
func (d *Draft) Seal(ctx context.Context, m Manifest) (Manifest, error) {
	if err := m.Validate(); err != nil {
		return m, fmt.Errorf("seal image: %w", err)
	}
	data, err := m.encode()
	if err != nil {
		return m, fmt.Errorf("seal image: %w", err)
	}
	if err := d.tidy(m); err != nil {
		return m, fmt.Errorf("seal image: %w", err)
	}
	if err := writeFile(d.Path(ManifestFile), data); err != nil {
		return m, fmt.Errorf("seal image: %w", err)
	}
	if err := syncTree(d.dir); err != nil {
		return m, fmt.Errorf("seal image: %w", err)
	}
	l, err := d.store.lock()
	if err != nil {
		return m, err
	}
	defer l.unlock()
	switch err := d.store.Verify(ctx, m.Digest); {
	case err == nil:
		return d.giveWay(m)
	case errors.Is(err, ErrCorrupt):
		if err := d.displace(m.Digest); err != nil {
			return m, fmt.Errorf("seal image: %w", err)
		}
	case !errors.Is(err, ErrNotFound):
		return m, fmt.Errorf("seal image: %w", err)
	}
	// The lock file goes last; from here to the rename the store's lock keeps others out.
	if err := os.Remove(d.Path(draftLock)); err != nil {
		return m, fmt.Errorf("seal image: %w", err)
	}
	if err := os.Rename(d.dir, d.store.Path(m.Digest)); err != nil {
		return m, fmt.Errorf("seal image: %w", err)
	}
	d.lock.unlock()
	d.dir = ""
	return m, errors.Join(syncPath(d.store.dir), d.store.writeTag(m.Reference(), m.Digest))
}

// giveWay tags the store's own image of m's digest and ends the draft.
func (d *Draft) giveWay(m Manifest) (Manifest, error) {
	old, err := d.store.Get(m.Digest)
	if err != nil {
		return m, fmt.Errorf("seal image: %w", err)
	}
	return old, errors.Join(d.store.writeTag(m.Reference(), m.Digest), d.Abort())
}

// displace moves a corrupt image out of the way and into this draft's trash.
func (d *Draft) displace(digest Digest) error {
	trash, err := os.MkdirTemp(d.store.dir, draftPrefix+"rm-")
	if err != nil {
		return fmt.Errorf("replace corrupt image: %w", err)
	}
	if err := os.Rename(d.store.Path(digest), filepath.Join(trash, "image")); err != nil {
		return fmt.Errorf("replace corrupt image: %w", err)
	}
	return d.store.removeAll(trash)
}

// tidy removes what is no part of an image and sets modes.
func (d *Draft) tidy(m Manifest) error {
	keep := m.files()
	keep[PackagesFile] = File{}
	keep[draftLock] = File{}
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return fmt.Errorf("tidy draft: %w", err)
	}
	for _, e := range entries {
		if _, ok := keep[e.Name()]; !ok {
			if err := d.store.removeAll(d.Path(e.Name())); err != nil {
				return fmt.Errorf("tidy draft: %w", err)
			}
			continue
		}
		if err := os.Chmod(d.Path(e.Name()), fileMode); err != nil {
			return fmt.Errorf("tidy draft: %w", err)
		}
	}
	if err := os.Chmod(d.dir, dirMode); err != nil {
		return fmt.Errorf("tidy draft: %w", err)
	}
	return nil
}
