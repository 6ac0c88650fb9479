package files

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// tarIn unpacks an archive below a directory, which is made if it is missing.
// Nothing outside it can be reached: names that are absolute or hold "..", and
// entries that would pass through a link to outside, are refused; so are
// devices and pipes. Owners in the archive are ignored and set-id bits are
// dropped: all entries belong to the acting user. Each file is replaced as a
// whole; a refused archive leaves the entries before the refused one.
func (s *Service) tarIn(ctx context.Context, c *mux.Call, p guest.PathParams) (res guest.TarResult, err error) {
	u, dir, err := s.resolve(p)
	if err != nil {
		return res, err
	}
	err = u.Do(func() error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		un := &unpacker{root: root, tr: tar.NewReader(c.Streams[0])}
		err = un.all(ctx)
		res = un.res
		if err == nil {
			_, err = copyPlain(io.Discard, c.Streams[0]) // padding behind the end
		}
		return err
	})
	return res, err
}

type unpacker struct {
	root *os.Root
	tr   *tar.Reader
	dirs []*tar.Header // their modes and times are set at the end
	res  guest.TarResult
}

func (u *unpacker) all(ctx context.Context) error {
	for ctx.Err() == nil {
		h, err := u.tr.Next()
		if errors.Is(err, io.EOF) {
			return u.finishDirs()
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return invalid("read archive: " + err.Error())
		}
		if err != nil {
			return fmt.Errorf("read archive: %w", err)
		}
		if err := u.entry(h); err != nil {
			return fmt.Errorf("unpack %q: %w", h.Name, escaped(err))
		}
	}
	return context.Cause(ctx)
}

func (u *unpacker) entry(h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	u.res.Entries++
	if h.Typeflag == tar.TypeDir {
		h.Name = name
		u.dirs = append(u.dirs, h)
		return u.root.MkdirAll(name, 0o755)
	}
	if name == "." {
		return invalid("the directory itself is named as a file")
	}
	if err := u.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.file(name, h)
	case tar.TypeSymlink:
		if err := u.clear(name); err != nil {
			return err
		}
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeLink:
		old, err := inside(h.Linkname)
		if err != nil || old == name {
			return err
		}
		if err := u.clear(name); err != nil {
			return err
		}
		return u.root.Link(old, name)
	}
	return invalid("devices, pipes and unknown kinds of entries are refused")
}

// inside checks a name of the archive.
func inside(name string) (string, error) {
	if name == "" || strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) {
		return "", invalid("names must be relative")
	}
	if slices.Contains(strings.Split(name, "/"), "..") {
		return "", invalid("names must not hold ..")
	}
	return path.Clean(name), nil
}

// escaped gives os.Root's refusal a code; it has no sentinel of its own.
func escaped(err error) error {
	text := ""
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		text = pe.Err.Error()
	} else if le, ok := errors.AsType[*os.LinkError](err); ok {
		text = le.Err.Error()
	}
	if strings.Contains(text, "path escapes") {
		return invalid("the entry would leave the directory through a link")
	}
	return err
}

// clear makes room for a link.
func (u *unpacker) clear(name string) error {
	fi, err := u.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.IsDir() {
		return &guest.Error{Code: guest.CodeIsDir, Message: name + " is a directory already"}
	}
	return u.root.Remove(name)
}

func (u *unpacker) file(name string, h *tar.Header) error {
	if fi, err := u.root.Lstat(name); err == nil && fi.IsDir() {
		return &guest.Error{Code: guest.CodeIsDir, Message: name + " is a directory already"}
	}
	temp := path.Join(path.Dir(name), "."+strings.ToLower(rand.Text()[:16])+".part")
	f, err := u.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := copyPlain(f, u.tr)
	u.res.Bytes += n
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode).Perm())
	}
	err = errors.Join(err, f.Close())
	if err == nil && !h.ModTime.IsZero() {
		err = u.root.Chtimes(temp, time.Time{}, h.ModTime)
	}
	if err == nil {
		err = u.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, u.root.Remove(temp))
	}
	return nil
}

// finishDirs goes from the deepest up: a directory may forbid what is below it.
func (u *unpacker) finishDirs() error {
	for _, h := range slices.Backward(u.dirs) {
		if h.Name == "." {
			continue // the given directory keeps its own
		}
		err := u.root.Chmod(h.Name, fs.FileMode(h.Mode).Perm())
		if err == nil && !h.ModTime.IsZero() {
			err = u.root.Chtimes(h.Name, time.Time{}, h.ModTime)
		}
		if err != nil {
			return fmt.Errorf("finish directory %q: %w", h.Name, escaped(err))
		}
	}
	return nil
}
