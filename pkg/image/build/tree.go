package build

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// node is a file of the guest's tree.
type node struct {
	kind   byte   // of find's %y: f file, d directory, l link
	mode   uint32 // permissions
	uid    int    //
	gid    int    //
	mtime  int64  // seconds
	size   int64  // bytes
	path   string // absolute in the guest, clean; "/" is the root
	target string // of a link
	xattr  []byte // security.capability, nil for none
}

const nodeFields = 8

// emptied are directories whose content is the running machine's business, and /boot,
// whose content the hypervisor loads from beside the disk.
func emptied(dir string) bool {
	switch dir {
	case "/dev", "/proc", "/sys", "/run", "/tmp", "/boot":
		return true
	default:
		return false
	}
}

// parseTree reads the output of list.sh: for each file the fields type, mode, uid, gid,
// mtime, size, path and link target, each ended by NUL. It returns directories before what
// is in them and names in the order of their bytes, whatever order the host's file system
// has, without what is in emptied directories and without links from / to boot files.
func parseTree(data []byte) ([]node, error) {
	fields := bytes.Split(data, []byte{0})
	if len(fields) == 1 || len(fields)%nodeFields != 1 || len(fields[len(fields)-1]) != 0 {
		return nil, fmt.Errorf("parse tree: %d fields are no whole number of files", len(fields)-1)
	}
	var nodes []node
	for f := range slices.Chunk(fields[:len(fields)-1], nodeFields) {
		n, err := parseNode(f)
		if err != nil {
			return nil, fmt.Errorf("parse tree: %w", err)
		}
		if skipped(n) {
			continue
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b node) int {
		return cmp.Or(cmp.Compare(path.Dir(a.path), path.Dir(b.path)), cmp.Compare(a.path, b.path))
	})
	// By directory, and a directory's path is a prefix of what is in it, so parents come first.
	return nodes, nil
}

func parseNode(f [][]byte) (node, error) {
	n := node{path: path.Clean("/" + string(f[6])), target: string(f[7])}
	mode, err1 := strconv.ParseUint(string(f[1]), 8, 12)
	uid, err2 := strconv.ParseUint(string(f[2]), 10, 31)
	gid, err3 := strconv.ParseUint(string(f[3]), 10, 31)
	seconds, _, _ := strings.Cut(string(f[4]), ".")
	mtime, err4 := strconv.ParseInt(seconds, 10, 64)
	size, err5 := strconv.ParseInt(string(f[5]), 10, 64)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return n, fmt.Errorf("%s: %w", n.path, err)
	}
	if len(f[0]) != 1 || strings.ContainsAny(n.path+n.target, "\n\r\x00") {
		return n, fmt.Errorf("%q: type %q or a name that cannot be written", n.path, f[0])
	}
	n.kind, n.mode, n.uid, n.gid, n.mtime, n.size = f[0][0], uint32(mode), int(uid), int(gid), mtime, size
	return n, nil
}

func skipped(n node) bool {
	dir := path.Dir(n.path)
	if dir == "/" && n.kind == 'l' && (strings.HasPrefix(n.path, "/vmlinuz") || strings.HasPrefix(n.path, "/initrd")) {
		return true
	}
	for d := dir; d != "/"; d = path.Dir(d) {
		if emptied(d) {
			return true
		}
	}
	return false
}

// treeSize estimates what the tree takes on a disk with blocks of 4 KiB, in bytes.
func treeSize(nodes []node) int64 {
	const block, inode = 4096, 256
	var n int64
	for _, f := range nodes {
		n += (f.size+block-1)/block*block + inode
	}
	return n
}
