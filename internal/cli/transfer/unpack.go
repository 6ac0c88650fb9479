package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"
)

// Unpack writes a tar stream into dir, which exists, below name; with name "."
// into dir itself. Modes and times are kept, owners are not. Nothing is written
// outside of dir: .. does not climb, and an entry behind a symlink that leaves
// dir is an error.
func Unpack(r io.Reader, dir, name string) error {
	root, err := target(dir, name)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	defer root.Close()
	u := unpacker{root: root}
	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return u.finish()
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		to := inside(h.Name)
		if to == "." && name == "." {
			continue // dir itself keeps what it is
		}
		if err := u.entry(h, in, to); err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

// target opens the directory that nothing is written outside of.
func target(dir, name string) (*os.Root, error) {
	above, err := os.OpenRoot(dir)
	if err != nil || name == "." {
		return above, err
	}
	defer above.Close()
	if err := above.MkdirAll(name, 0o755); err != nil {
		return nil, err
	}
	return above.OpenRoot(name)
}

// inside is the name of an entry below the target. Rooted cleaning keeps ..
// from climbing.
func inside(entry string) string { return path.Join(".", path.Clean("/"+entry)) }

type unpacker struct {
	root *os.Root
	dirs []dirMode // set when all is written: a directory may be read-only
}

type dirMode struct {
	name string
	mode fs.FileMode
	time time.Time
}

func (u *unpacker) entry(h *tar.Header, content io.Reader, to string) error {
	mode := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		if to != "." {
			if err := u.root.MkdirAll(to, mode|0o700); err != nil {
				return err
			}
		}
		u.dirs = append(u.dirs, dirMode{to, mode, h.ModTime})
		return nil
	case tar.TypeReg:
		return u.file(h, content, to, mode)
	case tar.TypeSymlink:
		if err := u.clear(to); err != nil {
			return err
		}
		return u.root.Symlink(h.Linkname, to)
	case tar.TypeLink:
		if err := u.clear(to); err != nil {
			return err
		}
		return u.root.Link(inside(h.Linkname), to)
	default:
		return nil // devices and pipes mean nothing here
	}
}

// clear makes room for an entry, and its directory.
func (u *unpacker) clear(to string) error {
	if err := u.root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return err
	}
	if err := u.root.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (u *unpacker) file(h *tar.Header, content io.Reader, to string, mode fs.FileMode) error {
	// Removing first keeps a symlink that is there from being written through.
	if err := u.clear(to); err != nil {
		return err
	}
	f, err := u.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := u.root.Chmod(to, mode); err != nil { // whatever the umask says
		return err
	}
	return u.root.Chtimes(to, h.ModTime, h.ModTime)
}

// finish sets what directories are, innermost first.
func (u *unpacker) finish() error {
	for _, d := range slices.Backward(u.dirs) {
		if err := u.root.Chmod(d.name, d.mode); err != nil {
			return fmt.Errorf("set mode of %s: %w", d.name, err)
		}
		if err := u.root.Chtimes(d.name, d.time, d.time); err != nil {
			return fmt.Errorf("set time of %s: %w", d.name, err)
		}
	}
	return nil
}
