// Package tree reads the files of a workspace from the tar that a guest makes of
// them, and tells two of them apart. What it reads is a guest's: nothing of it is
// believed, and nothing is written by the names in it.
package tree

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// ErrInvalid says that a stream is not the sorted tar of one directory.
var ErrInvalid = errors.New("not the sorted tar of a directory")

// Kinds of entries.
const (
	File     = "file"
	Dir      = "dir"
	Symlink  = "symlink"
	Hardlink = "hardlink" // another name of a file before it
	Pipe     = "pipe"
	Char     = "char device"
	Block    = "block device"
)

const (
	// grain is the unit in which zeros are left out, in bytes.
	grain = 64 << 10
	// most is how many bytes of files one stream may tell of, holes included: what
	// ext4 takes in one file.
	most = 16 << 40
)

// Entry is one name in a workspace.
type Entry struct {
	// Path is relative, with slashes, and may hold any byte but NUL; "." is the
	// top.
	Path     string
	Kind     string
	Mode     int64 // permission bits with set-id and sticky, as in stat(2)
	UID, GID int
	Size     int64 // of a file, in bytes
	Time     time.Time
	Link     string   // of a symlink what it says, of a hardlink the other path
	Device   [2]int64 // major, minor
	// Content is equal when files hold the same bytes, wherever they have holes.
	Content [sha256.Size]byte
	// Attributes is equal when extended attributes and ACLs are.
	Attributes [sha256.Size]byte
}

// Reader reads entries. Each entry is read whole.
type Reader struct {
	ctx  context.Context //nolint:containedctx // of a reader, as of a request
	tar  *tar.Reader
	last string
	any  bool
	left int64
}

// NewReader reads from a tar whose entries are sorted within their directories,
// each directory before what is in it: GNU tar's --sort=name. A file of holes costs
// time and no bytes of r: the end of ctx ends that.
func NewReader(ctx context.Context, r io.Reader) *Reader {
	return &Reader{ctx: ctx, tar: tar.NewReader(r), left: most}
}

// Next gives the next entry, and io.EOF behind the last one.
func (r *Reader) Next() (Entry, error) {
	h, err := r.tar.Next()
	if errors.Is(err, io.EOF) {
		return Entry{}, io.EOF
	}
	if errors.Is(err, tar.ErrHeader) {
		return Entry{}, fmt.Errorf("read files: %w: %w", ErrInvalid, err)
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read files: %w", err)
	}
	e := Entry{
		Path: clean(h.Name), Mode: h.Mode & 0o7777, UID: h.Uid, GID: h.Gid, Size: h.Size,
		Time: h.ModTime.UTC(), Attributes: attributes(h.PAXRecords),
	}
	if err := r.describe(&e, h); err != nil {
		return Entry{}, fmt.Errorf("read files: %q: %w", e.Path, err)
	}
	return e, nil
}

func (r *Reader) describe(e *Entry, h *tar.Header) (err error) {
	if r.any && Compare(r.last, e.Path) >= 0 {
		return fmt.Errorf("%w: it comes behind %q", ErrInvalid, r.last)
	}
	r.last, r.any = e.Path, true
	if h.Typeflag != tar.TypeReg {
		e.Size = 0
	}
	switch h.Typeflag {
	case tar.TypeReg:
		e.Kind = File
		if r.left -= h.Size; r.left < 0 {
			return fmt.Errorf("%w: files of more than %d bytes", ErrInvalid, int64(most))
		}
		e.Content, err = content(r.ctx, r.tar)
	case tar.TypeDir:
		e.Kind = Dir
	case tar.TypeSymlink:
		e.Kind, e.Link = Symlink, h.Linkname
	case tar.TypeLink:
		e.Kind, e.Link = Hardlink, clean(h.Linkname)
	case tar.TypeFifo:
		e.Kind = Pipe
	case tar.TypeChar:
		e.Kind, e.Device = Char, [2]int64{h.Devmajor, h.Devminor}
	case tar.TypeBlock:
		e.Kind, e.Device = Block, [2]int64{h.Devmajor, h.Devminor}
	default:
		err = fmt.Errorf("%w: an entry of type %q", ErrInvalid, h.Typeflag)
	}
	return err
}

// clean is a name as tar writes it without its ornaments.
func clean(name string) string {
	return cmp.Or(strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/"), ".")
}

// Compare orders paths as a sorted walk meets them: a directory, what is in it,
// then the name behind it.
func Compare(a, b string) int {
	if a == b {
		return 0
	}
	if a == "." || b == "." {
		return cmp.Compare(b2i(a != "."), b2i(b != "."))
	}
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// content hashes the parts of a file that are not zero, each with its place.
func content(ctx context.Context, r io.Reader) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	buf, zero := make([]byte, grain), make([]byte, grain)
	for at := int64(0); ctx.Err() == nil; at += grain {
		n, err := io.ReadFull(r, buf)
		if !bytes.Equal(buf[:n], zero[:n]) {
			number(h, at)
			h.Write(buf[:n])
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
			if err := ended(r); err != nil {
				return sum, err
			}
			number(h, at+int64(n))
			return [sha256.Size]byte(h.Sum(nil)), nil
		}
		if err != nil {
			return sum, err
		}
	}
	return sum, context.Cause(ctx)
}

// ended tells a file's end from that of its archive, for which io.ReadFull has one
// word.
func ended(r io.Reader) error {
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return cmp.Or(err, io.ErrUnexpectedEOF)
	}
	return nil
}

func number(h hash.Hash, n int64) { h.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }

// attributes hashes what tar keeps of extended attributes and ACLs.
func attributes(records map[string]string) [sha256.Size]byte {
	h := sha256.New()
	for _, k := range slices.Sorted(maps.Keys(records)) {
		if strings.HasPrefix(k, "SCHILY.xattr.") || strings.HasPrefix(k, "SCHILY.acl.") {
			for _, s := range []string{k, records[k]} {
				number(h, int64(len(s)))
				io.WriteString(h, s) //nolint:errcheck // a hash takes everything
			}
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
