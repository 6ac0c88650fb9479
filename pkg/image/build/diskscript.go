package build

import (
	"fmt"
	"io"
	"path"
	"strings"
)

// diskScript writes debugfs commands that fill an empty ext4 file system with nodes, as
// returned by parseTree. root is where the files lie; epoch, in seconds, is the time of
// everything that has none of its own. Hard links become files of their own.
//
// mke2fs -d does the same in one step, but takes change times from the host's files and
// names in the order of the host's directories, which differ from build to build.
func diskScript(w io.Writer, nodes []node, root string, epoch int64) error {
	s := scripter{w: w, epoch: epoch}
	s.line("set_current_time @%d", epoch)
	dir := ""
	for i, n := range nodes {
		if n.path == "/" {
			s.line("cd /")
			s.attributes(n, "/", 0o755)
			dir = "/"
			continue
		}
		if d := path.Dir(n.path); d != dir {
			s.line("cd %s", quote(d))
			dir = d
		}
		name := quote(path.Base(n.path))
		switch n.kind {
		case 'd':
			s.line("mkdir %s", name)
			s.attributes(n, name, 0o755)
		case 'f':
			s.line("write %s %s", quote(root+n.path), name)
			s.attributes(n, name, n.mode)
			if n.xattr != nil {
				s.line("ea_set -f %s %s security.capability", quote(xattrFile(root, i)), name)
			}
		case 'l':
			s.line("symlink %s %s", name, quote(n.target))
			s.attributes(n, name, n.mode)
		default:
			return fmt.Errorf("write disk: %s is of type %c, which an image cannot hold", n.path, n.kind)
		}
	}
	return s.err
}

// xattrFile is where the capability of node i is put for debugfs to read.
func xattrFile(root string, i int) string { return fmt.Sprintf("%s.xattr-%d", root, i) }

// scripter writes lines and keeps the first error.
type scripter struct {
	w     io.Writer
	epoch int64
	err   error
}

func (s *scripter) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.w, format+"\n", args...)
	}
}

// attributes sets what debugfs does not take from the file: it makes everything root's,
// directories of the mode has, and of the current time.
func (s *scripter) attributes(n node, name string, has uint32) {
	if n.mode != has {
		s.line("set_inode_field %s mode 0%o", name, fileType(n.kind)|n.mode)
	}
	if n.uid != 0 {
		s.line("set_inode_field %s uid %d", name, n.uid)
	}
	if n.gid != 0 {
		s.line("set_inode_field %s gid %d", name, n.gid)
	}
	if n.mtime < s.epoch {
		s.line("set_inode_field %s mtime @%d", name, n.mtime)
	}
}

func fileType(kind byte) uint32 {
	switch kind {
	case 'd':
		return cpioDir
	case 'l':
		return cpioLink
	default:
		return cpioFile
	}
}

// quote makes one word for debugfs, whose quotes are escaped by doubling.
func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
