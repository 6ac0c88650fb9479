package files

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// copyBuffer is the memory of one transfer, in bytes.
const copyBuffer = 64 << 10

func (s *Service) read(_ context.Context, c *mux.Call, p guest.ReadParams) (any, error) {
	u, path, err := s.resolve(p.PathParams)
	if err != nil {
		return nil, err
	}
	if p.Offset < 0 {
		return nil, invalid("the offset is negative")
	}
	f, fi, err := openRegular(u, path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(p.Offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("seek in %s: %w", path, err)
	}
	if err := c.Reply(describe(fi, path, &account.Names{})); err != nil {
		return nil, err
	}
	var from io.Reader = f
	if p.N >= 0 {
		from = io.LimitReader(f, p.N)
	}
	_, err = copyPlain(c.Streams[0], from)
	return nil, err
}

// copyPlain copies through a buffer of known size, whatever the ends offer.
func copyPlain(to io.Writer, from io.Reader) (int64, error) {
	type writer struct{ io.Writer }
	type reader struct{ io.Reader }
	return io.CopyBuffer(writer{to}, reader{from}, make([]byte, copyBuffer))
}

func openRegular(u account.User, path string, flag int, mode os.FileMode) (f *os.File, fi fs.FileInfo, err error) {
	err = u.Do(func() (err error) {
		if f, err = os.OpenFile(path, flag|openFlags, mode); err != nil {
			return err
		}
		fi, err = f.Stat()
		switch {
		case err != nil:
		case fi.IsDir():
			err = &guest.Error{Code: guest.CodeIsDir, Message: path + " is a directory"}
		case !fi.Mode().IsRegular():
			err = invalid(path + " is not a regular file")
		}
		if err != nil {
			f.Close()
		}
		return err
	})
	return f, fi, err
}

func (s *Service) write(_ context.Context, c *mux.Call, p guest.WriteParams) (guest.FileInfo, error) {
	u, path, err := s.resolve(p.PathParams)
	if err != nil {
		return guest.FileInfo{}, err
	}
	if p.Offset < 0 || p.Append && (p.Offset > 0 || p.Exclusive) {
		return guest.FileInfo{}, invalid("append excludes an offset and exclusive, and an offset is not negative")
	}
	if p.MakeParents {
		if err := u.Do(func() error { return os.MkdirAll(filepath.Dir(path), 0o755) }); err != nil {
			return guest.FileInfo{}, err
		}
	}
	if p.Append || p.Offset > 0 {
		err = inPlace(u, path, p, c.Streams[0])
	} else {
		err = replace(u, path, p, c.Streams[0])
	}
	if err != nil {
		return guest.FileInfo{}, err
	}
	return statAs(u, path)
}

// inPlace appends to a file or overwrites a part of it. What came before a
// break stays.
func inPlace(u account.User, path string, p guest.WriteParams, from io.Reader) error {
	flag := os.O_WRONLY | os.O_CREATE
	if p.Append {
		flag |= os.O_APPEND
	}
	if p.Exclusive {
		flag |= os.O_EXCL
	}
	mode := unixMode(p.Mode)
	if p.Mode == 0 {
		mode = 0o644
	}
	f, _, err := openRegular(u, path, flag, mode)
	if err != nil {
		return err
	}
	if p.Offset > 0 {
		if _, err := f.Seek(p.Offset, io.SeekStart); err != nil {
			return errors.Join(fmt.Errorf("seek in %s: %w", path, err), f.Close())
		}
	}
	_, err = copyPlain(f, from)
	return errors.Join(err, f.Close())
}

// replace writes beside the file and renames over it when all bytes have come,
// so that readers see the old file or the new one, and a break leaves the old.
func replace(u account.User, path string, p guest.WriteParams, from io.Reader) error {
	var f *os.File
	var old fs.FileInfo
	err := u.Do(func() (err error) {
		if path, old, err = destination(path, p.Exclusive); err != nil {
			return err
		}
		base := filepath.Base(path)
		temp := filepath.Join(filepath.Dir(path), "."+base[:min(len(base), 200)]+"."+strings.ToLower(rand.Text()[:10])+".part")
		f, err = os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		return err
	})
	if err != nil {
		return err
	}
	_, err = copyPlain(f, from)
	if err == nil {
		err = finishAttributes(u, f, old, p.Mode)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = u.Do(func() error { return commit(f.Name(), path, p.Exclusive) })
	}
	if err != nil {
		return errors.Join(err, dropTemp(u, f.Name()))
	}
	return nil
}

func dropTemp(u account.User, name string) error {
	err := u.Do(func() error { return os.Remove(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// destination follows links, so that a link to a file stays a link, and
// returns what is there now.
func destination(path string, exclusive bool) (string, fs.FileInfo, error) {
	fi, err := os.Lstat(path)
	if err == nil && fi.Mode()&fs.ModeSymlink != 0 && !exclusive {
		target, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", nil, fmt.Errorf("follow link: %w", err)
		}
		path = target
		if fi, err = os.Lstat(path); err != nil {
			return "", nil, err
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil, nil
	case err != nil:
		return "", nil, err
	case exclusive:
		return "", nil, &guest.Error{Code: guest.CodeExists, Message: path + " exists"}
	case fi.IsDir():
		return "", nil, &guest.Error{Code: guest.CodeIsDir, Message: path + " is a directory"}
	case !fi.Mode().IsRegular():
		return "", nil, invalid(path + " is not a regular file")
	}
	return path, fi, nil
}

func finishAttributes(u account.User, f *os.File, old fs.FileInfo, mode uint32) error {
	m := unixMode(mode)
	if mode == 0 && old != nil {
		m = old.Mode().Perm() // a new file is never set-id by accident
	} else if mode == 0 {
		m = 0o644
	}
	if old != nil && u.UID == 0 {
		if err := keepOwner(f, old); err != nil {
			return fmt.Errorf("keep owner: %w", err)
		}
	}
	if err := f.Chmod(m); err != nil {
		return fmt.Errorf("set mode: %w", err)
	}
	return nil
}

func commit(temp, path string, exclusive bool) error {
	if !exclusive {
		return os.Rename(temp, path)
	}
	// A link, unlike a rename, refuses to replace.
	if err := os.Link(temp, path); err != nil {
		return err
	}
	return os.Remove(temp)
}
