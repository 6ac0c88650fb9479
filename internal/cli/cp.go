package cli

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

	"github.com/spf13/cobra"

	"github.com/deskfork/deskfork/internal/cli/parse"
	"github.com/deskfork/deskfork/internal/cli/transfer"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

func (a *app) cpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "cp SRC DST",
		Short: "Copy files to and from a desktop",
		Long: `Copies a file or a directory between this machine and a desktop; one side is
D:PATH. Modes are kept, owners are not.

The rules are those of docker cp. When DST is an existing directory, SRC is put
into it; else DST is the new name. A directory SRC that ends with /. means its
content. DST with a / at its end must be a directory, and the directory above
DST must exist.

A - is standard input or output. From a desktop, a file comes as its bytes and a
directory as tar. To a desktop, the input becomes the file DST; when DST is a
directory or ends with /, the input is tar and is unpacked there.`,
		Example: `  vmhost cp notes.txt first:/workspace/
  vmhost cp first:/workspace/report.pdf .
  vmhost cp ./site/. first:/workspace/site
  vmhost cp first:/etc/hostname -
  tar c src | vmhost cp - first:/workspace/
  echo hello | vmhost cp - first:/tmp/hello.txt`,
		Args: args(2, 2), ValidArgsFunction: a.completeCopy,
		RunE: func(cmd *cobra.Command, given []string) error {
			src, err := parse.ParseTarget(given[0])
			if err != nil {
				return err
			}
			dst, err := parse.ParseTarget(given[1])
			if err != nil {
				return err
			}
			return a.copyFiles(cmd.Context(), src, dst)
		},
	}
}

func (a *app) copyFiles(ctx context.Context, src, dst parse.Target) error {
	switch {
	case src.Remote() && dst.Remote():
		return invalid("both sides are desktops; write: vmhost cp %s:%s - | vmhost cp - %s:%s",
			src.Desktop, src.Path, dst.Desktop, dst.Path)
	case !src.Remote() && !dst.Remote():
		return invalid("neither side is a desktop; write D:PATH for one of them")
	}
	d, err := a.desktop(src.Desktop + dst.Desktop)
	if err != nil {
		return err
	}
	c := copier{a: a, ctx: ctx, files: d.Files(), meter: a.meter()}
	defer c.meter.done()
	switch {
	case src.Stdio():
		err = c.fromInput(dst.Path)
	case dst.Stdio():
		err = c.toOutput(src.Path)
	case dst.Remote():
		err = c.upload(src.Path, dst.Path)
	default:
		err = c.download(src.Path, dst.Path)
	}
	return err
}

// copier is one copy. It lives for one call, whose context it holds.
type copier struct {
	a     *app
	ctx   context.Context //nolint:containedctx // of the one call that it is made for
	files *client.Files
	meter *meter
}

// stat describes an entry of the guest; ok is false when there is none. The
// target of a symlink counts.
func (c *copier) stat(p string) (info api.FileInfo, ok bool, _ error) {
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
func (c *copier) place(dst, base string, srcDir, content bool) (dir, name string, _ error) {
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

func (c *copier) upload(src, dst string) error {
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
	_, err = c.files.Write(c.ctx, path.Join(dir, name), c.meter.reader(f), client.WriteOptions{
		Mode: unixMode(info.Mode()), Size: info.Size(),
	})
	return err
}

func (c *copier) uploadDir(src, dir, name string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := transfer.Pack(w, src, name)
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

func (c *copier) download(src, dst string) error {
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
		return transfer.Unpack(c.meter.reader(r), dir, name)
	}
	r, err := c.files.Open(c.ctx, info.Path)
	if err != nil {
		return err
	}
	defer r.Close()
	return save(filepath.Join(dir, name), c.meter.reader(r), fs.FileMode(info.Mode).Perm())
}

// placeHere says where on this machine SRC goes.
func placeHere(dst, base string, srcDir, content bool) (dir, name string, _ error) {
	info, err := os.Stat(dst)
	switch {
	case err == nil && info.IsDir() && content:
		return dst, ".", nil
	case err == nil && info.IsDir():
		return dst, base, nil
	case err == nil && (srcDir || strings.HasSuffix(dst, "/")):
		return "", "", invalid("%s is not a directory", dst)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", local(err)
	case err != nil && !srcDir && strings.HasSuffix(dst, "/"):
		return "", "", local(err)
	}
	dst = filepath.Clean(dst)
	if _, err := os.Stat(filepath.Dir(dst)); err != nil {
		return "", "", local(err)
	}
	return filepath.Dir(dst), filepath.Base(dst), nil
}

// save writes a file under a temporary name first, so that a broken link leaves
// what was there.
func save(name string, r io.Reader, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".vmhost-*")
	if err != nil {
		return local(err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is not there after the rename
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return local(err)
	}
	return nil
}

func (c *copier) fromInput(dst string) error {
	info, ok, err := c.stat(dst)
	if err != nil {
		return err
	}
	in := c.meter.reader(c.a.In)
	if strings.HasSuffix(dst, "/") || (ok && info.Type == api.FileDir) {
		return c.files.Extract(c.ctx, dst, in)
	}
	_, err = c.files.Write(c.ctx, dst, in, client.WriteOptions{})
	return err
}

func (c *copier) toOutput(src string) error {
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
	if _, err := io.Copy(c.a.Out, c.meter.reader(r)); err != nil {
		return fmt.Errorf("copy %s to standard output: %w", src, err)
	}
	return nil
}

// local gives an error of this machine's files a code.
func local(err error) error {
	code := api.CodeInternal
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = api.CodeNotFound
	case errors.Is(err, fs.ErrPermission):
		code = api.CodePermission
	}
	return api.Errorf(code, "%v", err)
}

// unixMode is a mode with its set-id and sticky bits where chmod has them.
func unixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, unix := range map[fs.FileMode]uint32{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			mode |= unix
		}
	}
	return mode
}
