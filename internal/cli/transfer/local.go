package transfer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/deskfork/deskfork/pkg/api"
)

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
	return saveBy(name, mode, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// saveBy is save of what write writes.
func saveBy(name string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".vmhost-*")
	if err != nil {
		return local(err)
	}
	defer os.Remove(f.Name()) //nolint:errcheck // it is not there after the rename
	err = write(f)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return local(err)
	}
	return nil
}

// local gives an error of this machine's files a code.
func local(err error) error {
	code, _ := localCode(err)
	return api.Errorf(code, "%v", err)
}

// localCode is the code of an error of this machine's files, if it is one that
// users can do something about.
func localCode(err error) (api.Code, bool) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return api.CodeNotFound, true
	case errors.Is(err, fs.ErrPermission):
		return api.CodePermission, true
	case errors.Is(err, syscall.ENOSPC):
		return api.CodeNoSpace, true
	default:
		return api.CodeInternal, false
	}
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
