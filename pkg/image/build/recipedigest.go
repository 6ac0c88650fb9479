package build

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/deskfork/deskfork/pkg/image"
)

// Version is the version of the builder. Raise it when a change here changes images.
const Version = 1

//go:embed scripts/*.sh
var scripts embed.FS

// script returns an embedded script.
func script(name string) (string, error) {
	data, err := scripts.ReadFile("scripts/" + name + ".sh")
	if err != nil {
		return "", fmt.Errorf("read script: %w", err)
	}
	return string(data), nil
}

// GuestBinaries are the two programs that the builder installs.
type GuestBinaries struct {
	Guestd string // path of the static root service
	Helper string // path of the helper in the X session
}

// Where guest binaries go.
const (
	guestdPath = "/usr/local/sbin/guestd"
	helperPath = "/usr/local/libexec/deskfork/guest-helper"
)

// files are the binaries by their path in the guest.
func (g GuestBinaries) files() map[string]string {
	return map[string]string{guestdPath: g.Guestd, helperPath: g.Helper}
}

// RecipeDigest is a hash over what decides about an image except the packages of the day:
// recipe, overlay, hooks, guest binaries and builder. Modes count only as executable or
// not, so that a checkout's umask makes no difference.
func RecipeDigest(r *Recipe, g GuestBinaries) (image.Digest, error) {
	h := sha256.New()
	fmt.Fprintf(h, "deskfork recipe %d\n", Version)
	if err := hashTree(h, "scripts", scripts, "scripts"); err != nil {
		return "", fmt.Errorf("hash recipe: %w", err)
	}
	dir := os.DirFS(r.Dir)
	for _, name := range append([]string{RecipeFile}, r.Hooks...) {
		if err := hashTree(h, "recipe", dir, filepath.ToSlash(name)); err != nil {
			return "", fmt.Errorf("hash recipe: %w", err)
		}
	}
	if _, err := os.Lstat(filepath.Join(r.Dir, OverlayDir)); err == nil {
		if err := hashTree(h, "overlay", dir, OverlayDir); err != nil {
			return "", fmt.Errorf("hash recipe: %w", err)
		}
	}
	for _, path := range []string{g.Guestd, g.Helper} {
		if err := hashTree(h, "guest", os.DirFS(filepath.Dir(path)), filepath.Base(path)); err != nil {
			return "", fmt.Errorf("hash guest binary: %w", err)
		}
	}
	return image.Digest("sha256:" + hex.EncodeToString(h.Sum(nil))), nil
}

// hashTree hashes the tree at root in lexical order.
func hashTree(h hash.Hash, kind string, fsys fs.FS, root string) error {
	return fs.WalkDir(fsys, root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			fmt.Fprintf(h, "%s dir %q\n", kind, path)
			return nil
		case e.Type() == fs.ModeSymlink:
			target, err := fs.ReadLink(fsys, path)
			fmt.Fprintf(h, "%s link %q %q\n", kind, path, target)
			return err
		case !e.Type().IsRegular():
			return fmt.Errorf("%s: neither file, directory nor link", path)
		}
		return hashFile(h, kind, fsys, path)
	})
}

func hashFile(h hash.Hash, kind string, fsys fs.FS, path string) error {
	f, err := fsys.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // was only read
	st, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "%s file %q %t %d\n", kind, path, st.Mode()&0o111 != 0, st.Size())
	n, err := io.Copy(h, f)
	if err == nil && n != st.Size() {
		err = fmt.Errorf("%s: changed while it was read", path)
	}
	return err
}
