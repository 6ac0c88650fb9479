// Package transfer turns local files into tar streams and back, for copies to
// and from desktops. What comes from a desktop is not trusted: nothing is
// written outside the directory that was named.
package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Pack writes the tree at dir as tar. Its entries lie below name; with name "."
// they are the content of dir alone. Symlinks stay symlinks; sockets, pipes and
// devices are left out.
func Pack(w io.Writer, dir, name string) error {
	out := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		if rel == "." && name == "." {
			return nil // keeps mode and owner of the directory that is there
		}
		return add(out, p, path.Join(name, filepath.ToSlash(rel)), e)
	})
	if err != nil {
		return fmt.Errorf("pack %s: %w", dir, err)
	}
	return out.Close()
}

func add(out *tar.Writer, p, name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	var link string
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		if link, err = os.Readlink(p); err != nil {
			return err
		}
	case !mode.IsRegular() && !mode.IsDir():
		return nil
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Uid, h.Gid = name, "", "", 0, 0
	h.Format = tar.FormatPAX // names of any length in UTF-8, times below a second
	if info.IsDir() {
		h.Name += "/"
	}
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	// A file that grew meanwhile is cut at the size that was promised.
	n, err := io.CopyN(out, f, h.Size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s shrank from %d to %d bytes while it was read", p, h.Size, n)
	}
	return err
}
