package files

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// tarOut sends a directory's entries, named relative to it, or one file under
// its own name. Sockets, pipes and devices are left out.
func (s *Service) tarOut(ctx context.Context, c *mux.Call, p guest.PathParams) (any, error) {
	u, from, err := s.resolve(p)
	if err != nil {
		return nil, err
	}
	return nil, u.Do(func() error {
		top, err := os.Stat(from)
		if err != nil {
			return err
		}
		dir, name := from, "."
		if !top.IsDir() {
			dir, name = filepath.Dir(from), filepath.Base(from)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			return err
		}
		defer root.Close()
		if err := c.Reply(nil); err != nil {
			return err
		}
		out := bufio.NewWriterSize(c.Streams[0], 32<<10)
		pk := &packer{ctx: ctx, root: root, tw: tar.NewWriter(out), links: map[[2]uint64]string{}}
		if err := pk.add(name, top); err != nil {
			return err
		}
		return errors.Join(pk.tw.Close(), out.Flush())
	})
}

type packer struct {
	ctx   context.Context
	root  *os.Root
	tw    *tar.Writer
	links map[[2]uint64]string // first name of a file with several
	names account.Names
}

// add packs name and what is below it.
func (p *packer) add(name string, fi fs.FileInfo) error {
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	switch {
	case fi.IsDir():
		return p.dir(name, fi)
	case fi.Mode().IsRegular():
		return p.file(name, fi)
	case fi.Mode()&fs.ModeSymlink != 0:
		target, err := p.root.Readlink(name)
		if err != nil {
			return gone(err)
		}
		h, err := p.header(name, fi, target)
		if err != nil {
			return err
		}
		return p.tw.WriteHeader(h)
	}
	return nil
}

func (p *packer) header(name string, fi fs.FileInfo, target string) (*tar.Header, error) {
	h, err := tar.FileInfoHeader(bare{fi}, target)
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", name, err)
	}
	h.Name = name
	if fi.IsDir() {
		h.Name += "/"
	}
	h.Uname, h.Gname = ownerOf(fi, &p.names)
	return h, nil
}

// bare hides the system's part of a FileInfo, from which the archive package
// would look up owners once an entry.
type bare struct{ fs.FileInfo }

// Sys implements fs.FileInfo.
func (bare) Sys() any { return nil }

func (p *packer) dir(name string, fi fs.FileInfo) error {
	if name != "." {
		h, err := p.header(name, fi, "")
		if err != nil {
			return err
		}
		if err := p.tw.WriteHeader(h); err != nil {
			return err
		}
	}
	d, err := p.root.Open(name)
	if err != nil {
		return gone(err)
	}
	entries, err := d.ReadDir(-1)
	d.Close()
	if err != nil {
		return gone(err)
	}
	for _, entry := range entries {
		child := path.Join(name, entry.Name())
		info, err := p.root.Lstat(child)
		if err != nil {
			if err = gone(err); err != nil {
				return err
			}
			continue
		}
		if err := p.add(child, info); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) file(name string, fi fs.FileInfo) error {
	if id, many := inode(fi); many {
		if first, seen := p.links[id]; seen {
			h, err := p.header(name, fi, "")
			if err != nil {
				return err
			}
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return p.tw.WriteHeader(h)
		}
		p.links[id] = name
	}
	f, err := p.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return gone(err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return err
	}
	h, err := p.header(name, fi, "")
	if err != nil {
		return err
	}
	if err := p.tw.WriteHeader(h); err != nil {
		return err
	}
	// The file may change while it is read; the archive must keep its word.
	n, err := copyPlain(p.tw, io.LimitReader(f, h.Size))
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	_, err = copyPlain(p.tw, io.LimitReader(zeros{}, h.Size-n))
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// gone forgives what vanished while its directory was being read.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
