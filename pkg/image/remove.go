package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Remove removes what ref points at. A tag that is not the last one of its image is only
// taken off; the last tag or a digest removes the image with all its tags. Before an image
// goes, inUse is asked under the store's lock: its error, best an *InUseError, ends the
// removal with nothing changed. nil inUse means that nobody uses images. Corrupt images
// can be removed. It reports whether the image itself went.
func (s *Store) Remove(ref Reference, inUse func(Digest) error) (bool, error) {
	l, err := s.lock()
	if err != nil {
		return false, err
	}
	defer l.unlock()
	info, err := s.Inspect(ref)
	var notFound *NotFoundError
	if errors.As(err, &notFound) && ref.Digest == "" {
		_ = s.untag(ref) // a tag whose image is gone serves nobody
	}
	if err != nil {
		return false, err
	}
	if ref.Digest == "" && len(info.Tags) > 1 {
		return false, s.untag(ref)
	}
	d := info.Manifest.Digest
	if inUse != nil {
		if err := inUse(d); err != nil {
			return false, err
		}
	}
	// The image goes first and in one step; a tag without image is found out at use.
	trash, err := os.MkdirTemp(s.dir, draftPrefix+"rm-")
	if err != nil {
		return false, fmt.Errorf("remove image %s: %w", d.Short(), err)
	}
	if err := os.Rename(s.Path(d), filepath.Join(trash, "image")); err != nil {
		_ = os.Remove(trash)
		return false, fmt.Errorf("remove image %s: %w", d.Short(), err)
	}
	for _, t := range info.Tags {
		name, tag, _ := strings.Cut(t, ":")
		err = errors.Join(err, s.untag(Reference{Name: name, Tag: tag}))
	}
	return true, errors.Join(err, s.removeAll(trash))
}

// collect removes drafts and removals whose process is dead.
func (s *Store) collect() error {
	l, err := s.lock()
	if err != nil {
		return err
	}
	defer l.unlock()
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("collect drafts: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), draftPrefix) {
			continue
		}
		path := filepath.Join(s.dir, e.Name())
		alive, err := lockPath(filepath.Join(path, draftLock), false)
		if err == nil && alive == nil {
			continue // its builder lives
		}
		// Held until the end: nobody else may take the draft for a live one.
		defer alive.unlock()
		if err := s.removeAll(path); err != nil {
			errs = append(errs, fmt.Errorf("collect draft %s: %w", e.Name(), err))
		}
	}
	return errors.Join(errs...)
}

// lock waits for the right to change tags and images.
func (s *Store) lock() (*flock, error) {
	l, err := lockPath(filepath.Join(s.dir, lockFile), true)
	if err != nil {
		return nil, fmt.Errorf("lock image store: %w", err)
	}
	return l, nil
}
