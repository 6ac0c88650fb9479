package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// Copy copies to and from the files of a desktop, by docker's rules for names.
type Copy struct {
	Files    *client.Files
	Progress io.Writer        // a terminal that is told how far a copy is; nil: nobody
	Now      func() time.Time // with Progress
}

// Upload copies a local file or directory to dst in the desktop.
func (c Copy) Upload(ctx context.Context, src, dst string) error {
	return c.with(ctx, func(k *copying) error { return k.upload(src, dst) })
}

// Download copies a file or directory of the desktop to dst on this machine.
func (c Copy) Download(ctx context.Context, src, dst string) error {
	return c.with(ctx, func(k *copying) error { return k.download(src, dst) })
}

// FromInput writes what it reads into the file dst; when that is a directory or
// ends with a slash, the input is tar.
func (c Copy) FromInput(ctx context.Context, in io.Reader, dst string) error {
	return c.with(ctx, func(k *copying) error { return k.fromInput(in, dst) })
}

// ToOutput writes a file, or a directory's content as tar.
func (c Copy) ToOutput(ctx context.Context, src string, out io.Writer) error {
	return c.with(ctx, func(k *copying) error { return k.toOutput(src, out) })
}

func (c Copy) with(ctx context.Context, do func(*copying) error) error {
	k := &copying{ctx: ctx, files: c.Files, meter: newMeter(c.Progress, c.Now)}
	defer k.meter.done()
	return coded(do(k))
}

// coded gives the errors of this machine's files their codes.
func coded(err error) error {
	if _, has := errors.AsType[*api.Error](err); has || err == nil {
		return err
	}
	if code, ok := localCode(err); ok {
		return api.Errorf(code, "%v", err)
	}
	return err
}

func invalid(format string, args ...any) error { return api.Errorf(api.CodeInvalid, format, args...) }

// copying is one copy. It lives for one call, whose context it holds.
type copying struct {
	ctx   context.Context //nolint:containedctx // of the one call that it is made for
	files *client.Files
	meter *meter
}

// stat describes an entry of the guest; ok is false when there is none. The
// target of a symlink counts.
func (c *copying) stat(p string) (info api.FileInfo, ok bool, _ error) {
	for range 40 { // as many as Linux follows
		info, err := c.files.Stat(c.ctx, p)
		if errors.Is(err, &api.Error{Code: api.CodeNotFound}) {
			return info, false, nil
		}
		if err != nil || info.Type != api.FileSymlink {
			return info, err == nil, err
		}
		if p = info.Target; !path.IsAbs(p) {
			p = path.Join(path.Dir(info.Path), p)
		}
	}
	return info, false, invalid("%s: too many symlinks", p)
}

// place says where in the guest SRC goes: into directory dir, as name.
func (c *copying) place(dst, base string, srcDir, content bool) (dir, name string, _ error) {
	info, ok, err := c.stat(dst)
	switch {
	case err != nil:
		return "", "", err
	case ok && info.Type == api.FileDir && content:
		return info.Path, ".", nil
	case ok && info.Type == api.FileDir:
		return info.Path, base, nil
	case ok && (srcDir || strings.HasSuffix(dst, "/")):
		return "", "", invalid("%s is not a directory", dst)
	case !ok && !srcDir && strings.HasSuffix(dst, "/"):
		return "", "", api.Errorf(api.CodeNotFound, "%s is not there", dst)
	case ok:
		return path.Dir(info.Path), path.Base(info.Path), nil
	}
	return c.below(dst)
}

// below is a new name in a directory that is there.
func (c *copying) below(dst string) (dir, name string, _ error) {
	above := path.Dir(strings.TrimSuffix(dst, "/"))
	parent, ok, err := c.stat(above)
	if err != nil {
		return "", "", err
	}
	if !ok {
		return "", "", api.Errorf(api.CodeNotFound, "%s is not there", above)
	}
	return parent.Path, path.Base(dst), nil
}

func (c *copying) upload(src, dst string) error {
	info, err := os.Stat(src)
	if err != nil {
		return local(err)
	}
	content := info.IsDir() && (strings.HasSuffix(src, "/.") || src == ".")
	abs, err := filepath.Abs(src)
	if err != nil {
		return err
	}
	dir, name, err := c.place(dst, filepath.Base(abs), info.IsDir(), content)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return c.uploadDir(abs, dir, name)
	}
	f, err := os.Open(src)
	if err != nil {
		return local(err)
	}
	defer f.Close()
	from := &source{r: f}
	c.meter.total = info.Size()
	_, err = c.files.Write(c.ctx, path.Join(dir, name), c.meter.reader(from), client.WriteOptions{
		Mode: unixMode(info.Mode()), Size: info.Size(),
	})
	if from.err != nil {
		return local(from.err)
	}
	return err
}

// source keeps the error of a local file, which the client could only take for one
// of the connection.
type source struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

func (c *copying) uploadDir(src, dir, name string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := Pack(w, src, name)
		w.CloseWithError(err)
		packed <- err
	}()
	err := c.files.Extract(c.ctx, dir, c.meter.reader(r))
	_ = r.CloseWithError(io.ErrClosedPipe) // ends the packing when the server went away
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return local(perr)
	}
	return err
}

func (c *copying) download(src, dst string) error {
	info, ok, err := c.stat(src)
	if err != nil {
		return err
	}
	if !ok {
		return api.Errorf(api.CodeNotFound, "%s is not there", src)
	}
	isDir := info.Type == api.FileDir
	content := isDir && (strings.HasSuffix(src, "/.") || src == ".")
	dir, name, err := placeHere(dst, path.Base(info.Path), isDir, content)
	if err != nil {
		return err
	}
	if isDir {
		r, err := c.files.Archive(c.ctx, info.Path)
		if err != nil {
			return err
		}
		defer r.Close()
		if err := Unpack(c.meter.reader(r), dir, name); err != nil {
			return fmt.Errorf("copy %s: %w", info.Path, err)
		}
		return nil
	}
	r, err := c.files.Open(c.ctx, info.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	c.meter.total = info.Size
	return save(filepath.Join(dir, name), c.meter.reader(r), fs.FileMode(info.Mode).Perm())
}

func (c *copying) fromInput(from io.Reader, dst string) error {
	info, ok, err := c.stat(dst)
	if err != nil {
		return err
	}
	in := c.meter.reader(from)
	if strings.HasSuffix(dst, "/") || (ok && info.Type == api.FileDir) {
		return c.files.Extract(c.ctx, dst, in)
	}
	_, err = c.files.Write(c.ctx, dst, in, client.WriteOptions{})
	return err
}

func (c *copying) toOutput(src string, out io.Writer) error {
	info, ok, err := c.stat(src)
	if err != nil {
		return err
	}
	if !ok {
		return api.Errorf(api.CodeNotFound, "%s is not there", src)
	}
	open := c.files.Open
	if info.Type == api.FileDir {
		open = c.files.Archive
	}
	r, err := open(c.ctx, info.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(out, c.meter.reader(r)); err != nil {
		return fmt.Errorf("copy %s to standard output: %w", src, err)
	}
	return nil
}
