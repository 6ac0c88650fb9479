package build

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/deskfork/deskfork/pkg/image"
)

// Package is a Debian package that a build needs on the host.
type Package struct {
	Name string // of the Debian package
	Tool string // program by which its presence is seen
	Why  string
}

// Packages are what a build needs on a Debian 12 host, for `doctor` and `make up`.
func Packages() []Package {
	return []Package{
		{"mmdebstrap", "mmdebstrap", "installs Debian into a directory, also as an ordinary user"},
		{"apt", "apt-get", "fetches packages for mmdebstrap"},
		{"debian-archive-keyring", "", "keys by which apt trusts Debian's archive"},
		{"e2fsprogs", "debugfs", "writes the system disk's file system (mke2fs, debugfs, e2fsck)"},
		{"uidmap", "newuidmap", "maps the subordinate ids of an ordinary user who builds images"},
		{"util-linux", "unshare", "keeps mounts and processes of a build in namespaces"},
		{"xz-utils", "xz", "unpacks the kernel, so that guests need not at every boot"},
		{"coreutils", "chroot", "runs a recipe's hooks in the guest's tree"},
		{"findutils", "find", "lists the guest's tree for the disk"},
	}
}

// MissingPackageError says which tool is not on the host. It wraps image.ErrMissingPackage.
type MissingPackageError struct{ Package Package }

// Error names the tool and what it is for.
func (e *MissingPackageError) Error() string {
	return fmt.Sprintf("find %s, which %s: not installed", e.Package.Tool, e.Package.Why)
}

// Unwrap returns image.ErrMissingPackage.
func (e *MissingPackageError) Unwrap() error { return image.ErrMissingPackage }

// Hint tells how to install it.
func (e *MissingPackageError) Hint() string { return "apt-get install " + e.Package.Name }

// toolDirs is where tools are looked for: an ordinary user's PATH lacks sbin.
const toolDirs = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Missing returns the packages of Packages whose tools are not on this host.
func Missing() []Package {
	var missing []Package
	for _, p := range Packages() {
		if p.Tool != "" && toolPath(p.Tool) == "" {
			missing = append(missing, p)
		}
	}
	return missing
}

func toolPath(name string) string {
	for _, dir := range filepath.SplitList(toolDirs) {
		path := filepath.Join(dir, name)
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return path
		}
	}
	return ""
}
