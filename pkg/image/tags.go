package image

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Tag points name:tag at an image that the store holds, in place of what it pointed at.
func (s *Store) Tag(ref Reference, d Digest) error {
	if CheckName(ref.Name) != nil || !validName(ref.Tag, true) {
		return badReference(ref.String(), "a tag needs a name and a tag")
	}
	l, err := s.lock()
	if err != nil {
		return err
	}
	defer l.unlock()
	if _, err := s.Get(d); err != nil {
		return fmt.Errorf("tag image: %w", err)
	}
	return s.writeTag(ref, d)
}

// writeTag is Tag under the store's lock.
func (s *Store) writeTag(ref Reference, d Digest) error {
	dir := filepath.Join(s.dir, tagsDir, ref.Name)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("write tag %s: %w", ref, err)
	}
	if err := writeFile(filepath.Join(dir, ref.Tag), []byte(string(d)+"\n")); err != nil {
		return fmt.Errorf("write tag %s: %w", ref, err)
	}
	return nil
}

// tagged reads where a tag points.
func (s *Store) tagged(ref Reference) (Digest, error) {
	if CheckName(ref.Name) != nil || !validName(ref.Tag, true) {
		return "", badReference(ref.String(), "a tag needs a name and a tag")
	}
	data, err := os.ReadFile(filepath.Join(s.dir, tagsDir, ref.Name, ref.Tag))
	if errors.Is(err, fs.ErrNotExist) {
		return "", s.notFound(ref)
	}
	if err != nil {
		return "", fmt.Errorf("read tag %s: %w", ref, err)
	}
	d, err := ParseDigest(strings.TrimSpace(string(data)))
	if err != nil {
		return "", &CorruptError{Image: ref.String(), File: "tag", Reason: "is no digest", Err: err}
	}
	return d, nil
}

// tags reads all tags; ones that do not parse are left out.
func (s *Store) tags() (map[string]Digest, error) {
	all := make(map[string]Digest)
	names, err := os.ReadDir(filepath.Join(s.dir, tagsDir))
	if err != nil {
		return nil, fmt.Errorf("list tags: %w", err)
	}
	for _, name := range names {
		files, err := os.ReadDir(filepath.Join(s.dir, tagsDir, name.Name()))
		if err != nil {
			continue // removed meanwhile, or no directory
		}
		for _, f := range files {
			ref := Reference{Name: name.Name(), Tag: f.Name()}
			if d, err := s.tagged(ref); err == nil {
				all[ref.String()] = d
			}
		}
	}
	return all, nil
}

// known lists the tags for an error's hint.
func (s *Store) known() []string {
	all, err := s.tags()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(all))
}

// untag removes a tag and its directory when that is empty.
func (s *Store) untag(ref Reference) error {
	dir := filepath.Join(s.dir, tagsDir, ref.Name)
	if err := os.Remove(filepath.Join(dir, ref.Tag)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove tag %s: %w", ref, err)
	}
	_ = os.Remove(dir) // fails while other tags are in it
	return nil
}
