// Package dir is a blob store in a directory. A blob is written under a
// temporary name, synced, linked to its key and its directories are synced, so
// that a kill at any step leaves the blob whole or absent. Several processes may
// share the directory if the file system is local.
package dir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
)

// Names and modes below the root. No key begins with a dot.
const (
	tempDir  = ".tmp"
	dirMode  = 0o700
	fileMode = 0o600
	// tempLife is how long a temporary file is taken to have a writer.
	tempLife = 24 * time.Hour
)

// Store keeps blobs as files.
type Store struct {
	root *os.Root
	base string // distinguishes the temporary names of processes
	temp atomic.Uint64
	// step, in tests, is called before each step of Put.
	step func(name string)
}

var _ interface {
	blob.Store
	blob.Atomic
} = (*Store)(nil)

// Open opens the store in a directory, which is made if it is not there, and
// removes what writers left behind that were killed a day ago or earlier.
func Open(name string) (*Store, error) {
	if err := os.MkdirAll(name, dirMode); err != nil {
		return nil, fmt.Errorf("open blob directory: %w", err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, fmt.Errorf("open blob directory: %w", err)
	}
	s := &Store{root: root, base: fmt.Sprintf("%d-%d-", os.Getpid(), time.Now().UnixNano()), step: func(string) {}}
	if err := errors.Join(root.MkdirAll(tempDir, dirMode), s.clean(time.Now().Add(-tempLife)), s.sync(".")); err != nil {
		return nil, fmt.Errorf("open blob directory %s: %w", name, errors.Join(err, root.Close()))
	}
	return s, nil
}

// Close releases the directory.
func (s *Store) Close() error { return s.root.Close() }

// Atomic implements blob.Atomic: a link is never replaced.
func (s *Store) Atomic() bool { return true }

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	return failed("put", key, s.put(ctx, key, body, size))
}

func (s *Store) put(ctx context.Context, key string, body io.ReaderAt, size int64) (err error) {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	if _, err := s.root.Lstat(key); err == nil {
		return blob.ErrExists
	}
	temp := path.Join(tempDir, s.base+strconv.FormatUint(s.temp.Add(1), 10))
	s.step("create")
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	// The name alone is removed: the blob is another link to the file.
	defer func() { err = errors.Join(err, s.root.Remove(temp)) }()
	s.step("write")
	err = s.fill(ctx, f, body, size)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := s.link(temp, key); err != nil {
		return err
	}
	for dir := path.Dir(key); ; dir = path.Dir(dir) {
		s.step("sync " + dir)
		if err := s.sync(dir); err != nil {
			return err
		}
		if dir == "." {
			s.step("remove")
			return nil
		}
	}
}

func (s *Store) fill(ctx context.Context, f *os.File, body io.ReaderAt, size int64) error {
	n, err := io.Copy(f, &reader{ctx: ctx, r: io.NewSectionReader(body, 0, size), left: size})
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	s.step("sync")
	return f.Sync()
}

// link gives the file its key. Deletes may remove the empty directories that it
// has just made, so it tries again.
func (s *Store) link(temp, key string) error {
	for try := 0; ; try++ {
		s.step("mkdir")
		if err := s.root.MkdirAll(path.Dir(key), dirMode); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.step("link")
		err := s.root.Link(temp, key)
		if errors.Is(err, fs.ErrExist) {
			return blob.ErrExists
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) || try == 100 {
			return err
		}
	}
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	f, size, err := s.open(ctx, key)
	if err == nil {
		err = blob.CheckRange(off, n, size)
	}
	if err != nil {
		if f != nil {
			_ = f.Close()
		}
		return nil, failed("get", key, err)
	}
	if n < 0 || n > size-off {
		n = size - off
	}
	return &reader{ctx: ctx, r: io.NewSectionReader(f, off, n), left: n, file: f}, nil
}

func (s *Store) open(ctx context.Context, key string) (*os.File, int64, error) {
	if err := errors.Join(ctx.Err(), blob.CheckKey(key)); err != nil {
		return nil, 0, err
	}
	f, err := s.root.Open(key)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = blob.ErrNotFound
	}
	if err != nil {
		return f, 0, err
	}
	return f, st.Size(), nil
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := errors.Join(ctx.Err(), blob.CheckKey(key)); err != nil {
		return blob.Info{}, failed("stat", key, err)
	}
	st, err := s.root.Lstat(key)
	if err == nil && !st.Mode().IsRegular() {
		err = blob.ErrNotFound
	}
	if err != nil {
		return blob.Info{}, failed("stat", key, err)
	}
	return blob.Info{Key: key, Size: st.Size(), Modified: st.ModTime()}, nil
}

// Delete implements blob.Store. Directories that it leaves empty go too.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := errors.Join(ctx.Err(), blob.CheckKey(key)); err != nil {
		return failed("delete", key, err)
	}
	err := failed("delete", key, s.remove(key))
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	return err
}

func (s *Store) remove(key string) error {
	st, err := s.root.Lstat(key)
	if err == nil && st.IsDir() {
		err = blob.ErrNotFound // it is part of a key
	}
	if err == nil {
		err = s.root.Remove(key)
	}
	for dir := path.Dir(key); err == nil && dir != "."; dir = path.Dir(dir) {
		if s.root.Remove(dir) != nil {
			break // not empty
		}
	}
	return err
}

// clean removes temporary files from before t.
func (s *Store) clean(t time.Time) error {
	entries, err := fs.ReadDir(s.root.FS(), tempDir)
	for _, e := range entries {
		st, statErr := e.Info()
		if statErr == nil && st.ModTime().Before(t) {
			statErr = s.root.Remove(path.Join(tempDir, e.Name()))
		}
		if !errors.Is(statErr, fs.ErrNotExist) {
			err = errors.Join(err, statErr)
		}
	}
	return err
}

func (s *Store) sync(dir string) error {
	d, err := s.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// failed gives an error the form of the contract.
func failed(op, key string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, blob.ErrExists), errors.Is(err, blob.ErrNotFound):
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		err = blob.ErrNotFound
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		err = fmt.Errorf("%w: %w", blob.ErrFull, err)
	}
	return &blob.Error{Op: op, Key: key, Err: err}
}

// reader ends with an error where bytes are missing or the context is done.
type reader struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no room for it
	r    io.Reader
	left int64
	file *os.File
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	r.left -= int64(n)
	if errors.Is(err, io.EOF) && r.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Close closes the file.
func (r *reader) Close() error { return r.file.Close() }
