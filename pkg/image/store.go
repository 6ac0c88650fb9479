package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Store holds images in a directory. It keeps nothing in memory, so several stores, also
// of several processes, may share a directory; changes are made under a file lock.
// All methods may be called at the same time.
type Store struct {
	dir       string
	removeAll func(path string) error
	group     int // may read images; 0: as they are
}

// Config is how a store is opened.
type Config struct {
	// Dir is the directory of images, DATA/images. It is made when missing.
	Dir string
	// RemoveAll removes what is left of a dead draft; nil means os.RemoveAll. A draft made
	// by an ordinary user holds files of that user's subordinate ids.
	RemoveAll func(path string) error
	// Group is the id of the group that Share lets read images: that of the
	// hypervisor's user. 0 leaves groups as they are.
	Group int
}

// Info is an image as it is now in the store.
type Info struct {
	Manifest  Manifest
	Dir       string   // absolute
	Tags      []string // "name:tag" that point at it, sorted
	Allocated int64    // bytes of disk that it takes; sparse files take less than their size
	Fault     error    // what the cheap check found, wrapping ErrCorrupt; the manifest may then be empty
}

// Open opens the store and removes drafts and removals that died on the way. Drafts whose
// process still lives are left alone.
func Open(c Config) (*Store, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	s := &Store{dir: dir, removeAll: c.RemoveAll, group: c.Group}
	if s.removeAll == nil {
		s.removeAll = os.RemoveAll
	}
	if err := os.MkdirAll(filepath.Join(dir, tagsDir), dirMode); err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	if err := s.collect(); err != nil {
		return nil, fmt.Errorf("open image store: %w", err)
	}
	return s, nil
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Path is the directory of an image, whether it exists or not.
func (s *Store) Path(d Digest) string { return filepath.Join(s.dir, d.Hex()) }

// DiskPath is the disk file of an image.
func (s *Store) DiskPath(m Manifest) string {
	return filepath.Join(s.Path(m.Digest), m.Disk.Format.File())
}

// Get returns the manifest of an image after the cheap check: the manifest is well formed
// and belongs here, and every file has exactly its size. Errors wrap ErrNotFound or ErrCorrupt.
func (s *Store) Get(d Digest) (Manifest, error) {
	if _, err := ParseDigest(string(d)); err != nil {
		return Manifest{}, err
	}
	return s.load(d.Hex())
}

// Resolve returns the manifest that ref points at, checked as by Get.
func (s *Store) Resolve(ref Reference) (Manifest, error) {
	d, err := s.digestOf(ref)
	if err != nil {
		return Manifest{}, err
	}
	m, err := s.Get(d)
	if errors.Is(err, ErrNotFound) {
		return Manifest{}, s.notFound(ref) // a tag whose image is gone
	}
	return m, err
}

// Inspect returns what Resolve does and how the image lies in the store. A corrupt image
// is returned with its Fault, so that it can be looked at and removed.
func (s *Store) Inspect(ref Reference) (Info, error) {
	d, err := s.digestOf(ref)
	if err != nil {
		return Info{}, err
	}
	tags, err := s.tags()
	if err != nil {
		return Info{}, err
	}
	info := s.info(d.Hex(), tags)
	if errors.Is(info.Fault, ErrNotFound) {
		return Info{}, s.notFound(ref)
	}
	return info, nil
}

// List returns all images, newest first; corrupt ones carry their Fault.
func (s *Store) List(ctx context.Context) ([]Info, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	tags, err := s.tags()
	if err != nil {
		return nil, err
	}
	var infos []Info
	for _, e := range entries {
		if !e.IsDir() || len(e.Name()) != digestHexLen || !isHex(e.Name()) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list images: %w", err)
		}
		if i := s.info(e.Name(), tags); !errors.Is(i.Fault, ErrNotFound) {
			infos = append(infos, i)
		}
	}
	slices.SortStableFunc(infos, func(a, b Info) int { return b.Manifest.Created.Compare(a.Manifest.Created) })
	return infos, nil
}

// ByRecipe returns the newest sound image that was built from a recipe with this digest.
func (s *Store) ByRecipe(ctx context.Context, recipe Digest) (Manifest, error) {
	infos, err := s.List(ctx)
	if err != nil {
		return Manifest{}, err
	}
	for _, i := range infos {
		if i.Fault == nil && i.Manifest.Build.Recipe == recipe {
			return i.Manifest, nil
		}
	}
	return Manifest{}, &NotFoundError{Ref: "recipe " + recipe.Short()}
}

// load reads and checks the manifest in the directory of that name.
func (s *Store) load(hexDigest string) (Manifest, error) {
	id := digestPrefix + hexDigest
	data, err := os.ReadFile(filepath.Join(s.dir, hexDigest, ManifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		if _, dirErr := os.Stat(filepath.Join(s.dir, hexDigest)); dirErr != nil {
			return Manifest{}, &NotFoundError{Ref: id, Known: s.known()}
		}
	}
	if err != nil {
		return Manifest{}, &CorruptError{Image: id, File: ManifestFile, Reason: "cannot be read", Err: err}
	}
	m, err := ParseManifest(data)
	if err != nil {
		return Manifest{}, &CorruptError{Image: id, File: ManifestFile, Reason: "does not parse", Err: err}
	}
	if m.Digest.Hex() != hexDigest {
		return Manifest{}, &CorruptError{Image: id, File: ManifestFile, Reason: "is of another image, " + string(m.Digest)}
	}
	return m, s.checkSizes(m)
}

// checkSizes compares the sizes of the files with the manifest's.
func (s *Store) checkSizes(m Manifest) error {
	for name, want := range m.files() {
		st, err := os.Lstat(filepath.Join(s.Path(m.Digest), name))
		switch {
		case err != nil:
			return &CorruptError{Image: string(m.Digest), File: name, Reason: "missing", Err: err}
		case !st.Mode().IsRegular():
			return &CorruptError{Image: string(m.Digest), File: name, Reason: "not a regular file"}
		case st.Size() != want.Size:
			return &CorruptError{
				Image: string(m.Digest), File: name,
				Reason: fmt.Sprintf("has %d bytes, want %d", st.Size(), want.Size),
			}
		}
	}
	return nil
}

func (s *Store) info(hexDigest string, tags map[string]Digest) Info {
	m, err := s.load(hexDigest)
	i := Info{Manifest: m, Dir: filepath.Join(s.dir, hexDigest), Fault: err}
	if err != nil {
		i.Manifest.Digest = Digest(digestPrefix + hexDigest)
		if st, statErr := os.Stat(i.Dir); statErr == nil && i.Manifest.Created.IsZero() {
			i.Manifest.Created = st.ModTime().UTC().Truncate(time.Second)
		}
	}
	i.Allocated = allocated(i.Dir)
	for tag, d := range tags {
		if d.Hex() == hexDigest {
			i.Tags = append(i.Tags, tag)
		}
	}
	slices.Sort(i.Tags)
	return i
}

// digestOf follows a tag or completes the beginning of a digest.
func (s *Store) digestOf(ref Reference) (Digest, error) {
	if ref.Digest == "" {
		return s.tagged(ref)
	}
	if !isHex(ref.Digest) || len(ref.Digest) < shortHexLen || len(ref.Digest) > digestHexLen {
		return "", badReference(ref.Digest, "a digest has 12 to 64 hex digits")
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return "", fmt.Errorf("find image: %w", err)
	}
	var found []string
	for _, e := range entries {
		if len(e.Name()) == digestHexLen && isHex(e.Name()) && strings.HasPrefix(e.Name(), ref.Digest) {
			found = append(found, e.Name())
		}
	}
	switch len(found) {
	case 0:
		return "", s.notFound(ref)
	case 1:
		return Digest(digestPrefix + found[0]), nil
	default:
		return "", badReference(ref.Digest, "more than one image begins so")
	}
}

func (s *Store) notFound(ref Reference) error {
	return &NotFoundError{Ref: ref.String(), Known: s.known()}
}
