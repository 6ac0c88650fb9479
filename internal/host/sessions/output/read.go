package output

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/session"
)

// found is a file in the guest.
type found struct {
	logical  string
	size     int64
	modified int64 // nanoseconds of the guest's clock
}

// list finds the files, by path. Anything but files and directories is refused: what
// a link points to may be anything.
func (p *place) list(ctx context.Context) ([]found, error) {
	all, err := p.files.List(ctx, guest.ListParams{PathParams: guest.PathParams{Path: p.mount}, Recursive: true})
	if err != nil {
		return nil, fmt.Errorf("list outputs: %w", err)
	}
	var list []found
	var total int64
	for _, f := range all {
		logical, below := strings.CutPrefix(f.Path, strings.TrimSuffix(p.mount, "/")+"/")
		switch {
		case f.Type == guest.TypeDir:
			continue
		case f.Type != guest.TypeFile:
			return nil, fmt.Errorf("output %s is a %s: only files are taken", f.Path, f.Type)
		case !below || logical != path.Clean(logical):
			return nil, fmt.Errorf("output %q does not lie in %s", f.Path, p.mount)
		}
		total += f.Size
		list = append(list, found{logical: logical, size: f.Size, modified: f.MTime.UnixNano()})
		if len(list) > session.MaxOutputFiles || total > session.MaxOutputBytes {
			return nil, fmt.Errorf("outputs are more than %d files or %d bytes", session.MaxOutputFiles, session.MaxOutputBytes)
		}
	}
	slices.SortFunc(list, func(a, b found) int { return strings.Compare(a.logical, b.logical) })
	return list, nil
}

// sniff is how many bytes say what a file is.
const sniff = 512

// taken hashes what is written, and refuses more than was announced.
type taken struct {
	to    io.Writer // nil: only hashed
	sum   interface{ Write([]byte) (int, error) }
	left  int64
	first []byte
}

func (t *taken) Write(b []byte) (int, error) {
	if int64(len(b)) > t.left {
		return 0, errors.New("it grows while it is read")
	}
	t.left -= int64(len(b))
	if n := min(sniff-len(t.first), len(b)); n > 0 {
		t.first = append(t.first, b[:n]...)
	}
	if _, err := t.sum.Write(b); err != nil {
		return 0, err
	}
	if t.to == nil {
		return len(b), nil
	}
	return t.to.Write(b)
}

// read reads a file of size bytes, into to when there is one, and hashes it.
func (p *place) read(ctx context.Context, logical string, size int64, to *spool) (session.OutputEntry, error) {
	sum := sha256.New()
	t := &taken{sum: sum, left: size}
	if to != nil {
		t.to = to.file
	}
	err := p.files.Read(ctx, guest.ReadParams{PathParams: guest.PathParams{Path: path.Join(p.mount, logical)}, N: -1}, t)
	if err == nil && t.left != 0 {
		err = fmt.Errorf("it has %d bytes less than it had", t.left)
	}
	if err != nil {
		return session.OutputEntry{}, fmt.Errorf("read output %s: %w", logical, err)
	}
	return session.OutputEntry{
		LogicalPath: logical, ContentHash: prefix + hex.EncodeToString(sum.Sum(nil)), Size: size, MediaType: http.DetectContentType(t.first),
	}, nil
}
