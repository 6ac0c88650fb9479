package files

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// describe turns what the system says about path into the protocol's form.
func describe(fi fs.FileInfo, path string, names *account.Names) guest.FileInfo {
	info := guest.FileInfo{
		Name: filepath.Base(path), Path: path, Type: typeOf(fi.Mode()), Size: fi.Size(),
		Mode: modeOf(fi.Mode()), MTime: fi.ModTime(),
	}
	info.User, info.Group = ownerOf(fi, names)
	if info.Type == guest.TypeSymlink {
		// A link that cannot be read has no target to tell.
		info.Target, _ = os.Readlink(path)
	}
	return info
}

func typeOf(m fs.FileMode) guest.FileType {
	switch {
	case m.IsRegular():
		return guest.TypeFile
	case m.IsDir():
		return guest.TypeDir
	case m&fs.ModeSymlink != 0:
		return guest.TypeSymlink
	}
	return guest.TypeOther
}

func modeOf(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// list sends one entry a line. An entry that vanishes meanwhile is left out, a
// directory below that may not be read is listed without its entries.
func (s *Service) list(ctx context.Context, c *mux.Call, p guest.ListParams) (any, error) {
	u, path, err := s.resolve(p.PathParams)
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(c.Streams[0], 32<<10)
	lister := &lister{ctx: ctx, enc: json.NewEncoder(out), recursive: p.Recursive}
	if err := u.Do(func() error { return lister.dir(path, true) }); err != nil {
		return nil, err
	}
	return nil, out.Flush()
}

type lister struct {
	ctx       context.Context
	enc       *json.Encoder
	names     account.Names
	recursive bool
}

func (l *lister) dir(path string, top bool) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		if !top && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)) {
			return nil
		}
		return err
	}
	for _, entry := range entries {
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		full := filepath.Join(path, entry.Name())
		fi, err := os.Lstat(full)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := l.enc.Encode(describe(fi, full, &l.names)); err != nil {
			return err
		}
		if l.recursive && fi.IsDir() {
			if err := l.dir(full, false); err != nil {
				return err
			}
		}
	}
	return nil
}
