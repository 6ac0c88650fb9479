package dir

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/deskfork/deskfork/pkg/blob"
)

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := blob.CheckPrefix(prefix); err != nil {
		return nil, failed("list", prefix, err)
	}
	w := &walk{ctx: ctx, root: s.root.FS(), prefix: prefix, after: after, limit: min(limit, blob.MaxPage)}
	if err := w.dir("."); err != nil {
		return nil, failed("list", prefix, err)
	}
	return w.page, nil
}

// walk collects one page.
type walk struct {
	ctx    context.Context //nolint:containedctx // lives as long as one call
	root   fs.FS
	prefix string
	after  string
	limit  int
	page   []blob.Info
}

func (w *walk) dir(dir string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := fs.ReadDir(w.root, dir)
	if err != nil && !vanished(err) {
		return err
	}
	// Keys come in the order of their bytes, in which a directory is its name
	// with a slash.
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(slashed(a), slashed(b)) })
	for _, e := range entries {
		if len(w.page) >= w.limit {
			return nil
		}
		key := path.Join(dir, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			if w.wants(key + "/") {
				err = w.dir(key)
			}
		case e.Type().IsRegular() && strings.HasPrefix(key, w.prefix) && key > w.after:
			err = w.file(key, e)
		}
		if err != nil && !vanished(err) {
			return err
		}
	}
	return nil
}

// wants says whether keys that begin with dir can be in the page.
func (w *walk) wants(dir string) bool {
	under := strings.HasPrefix(dir, w.prefix) || strings.HasPrefix(w.prefix, dir)
	return under && (dir > w.after || strings.HasPrefix(w.after, dir))
}

func (w *walk) file(key string, e fs.DirEntry) error {
	st, err := e.Info()
	if err != nil {
		return err
	}
	w.page = append(w.page, blob.Info{Key: key, Size: st.Size(), Modified: st.ModTime()})
	return nil
}

func slashed(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

// vanished: a blob or directory was removed while it was looked at.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
