// Package tree is the files that the benchmark of workspaces keeps, and its peer.
package tree

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

const (
	appended   = 8 << 20
	small      = 500 // files
	smallBytes = 4 << 10
	// Changed is how many bytes each change writes.
	Changed = appended + small*smallBytes
)

// Tree is the same files on the host and in the guest, of bytes that do not
// compress: large ones, many of 64 KiB, and small ones.
type Tree struct {
	Dir   string // on the host
	Bytes int64
	Files int
}

// random is a stream of bytes that follows from what it is for.
func random(what string, n int) io.Reader {
	seed := sha256.Sum256([]byte(what + " " + strconv.Itoa(n)))
	return rand.NewChaCha8(seed)
}

// Make makes the host's files: 1 GiB, or 64 MiB of them.
func Make(dir string, quick bool) (*Tree, error) {
	t := &Tree{Dir: dir}
	large, many := 6, 4000
	if quick {
		large, many = 1, 500
	}
	for _, kind := range []struct {
		name  string
		files int
		size  int64
	}{{"large", large, 128 << 20}, {"many", many, 64 << 10}, {"small", small, smallBytes}} {
		if err := os.MkdirAll(filepath.Join(dir, kind.name), 0o700); err != nil {
			return nil, err
		}
		size := kind.size
		if quick && kind.name == "large" {
			size /= 4
		}
		for i := range kind.files {
			if err := write(filepath.Join(dir, kind.name, strconv.Itoa(i)), os.O_CREATE|os.O_EXCL, random(kind.name, i), size); err != nil {
				return nil, err
			}
			t.Files, t.Bytes = t.Files+1, t.Bytes+size
		}
	}
	return t, nil
}

func write(name string, flags int, from io.Reader, size int64) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, from, size)
	return errors.Join(err, f.Close())
}

// CopyTo copies the files into a guest's workspace.
func (t *Tree) CopyTo(ctx context.Context, d *client.Desktop) error {
	from, to := io.Pipe()
	go func() {
		w := tar.NewWriter(to)
		to.CloseWithError(errors.Join(w.AddFS(os.DirFS(t.Dir)), w.Close()))
	}()
	defer from.Close() //nolint:errcheck // it never fails
	if err := d.Files().Extract(ctx, "/workspace", from); err != nil {
		return err
	}
	return shell(ctx, d, "sync")
}

// Change changes the host's files for the n-th time.
func (t *Tree) Change(n int) error {
	if err := write(filepath.Join(t.Dir, "large", "0"), os.O_APPEND, random("append", n), appended); err != nil {
		return err
	}
	for i := range small {
		name := filepath.Join(t.Dir, "small", strconv.Itoa(i))
		if err := write(name, 0, random("rewrite"+strconv.Itoa(n), i), smallBytes); err != nil {
			return err
		}
	}
	return nil
}

// ChangeIn changes the guest's files in the same way: in place.
func (t *Tree) ChangeIn(ctx context.Context, d *client.Desktop, n int) error {
	var part bytes.Buffer
	if _, err := io.CopyN(&part, random("append", n), appended); err != nil {
		return err
	}
	for i := range small {
		if _, err := io.CopyN(&part, random("rewrite"+strconv.Itoa(n), i), smallBytes); err != nil {
			return err
		}
	}
	if _, err := d.Files().Write(ctx, "/tmp/change", &part, client.WriteOptions{}); err != nil {
		return err
	}
	return shell(ctx, d, fmt.Sprintf(`python3 - <<'END'
with open('/tmp/change', 'rb') as change:
    with open('/workspace/large/0', 'ab') as f:
        f.write(change.read(%d))
    for i in range(%d):
        with open('/workspace/small/%%d' %% i, 'r+b') as f:
            f.write(change.read(%d))
END
sync`, appended, small, smallBytes))
}

func shell(ctx context.Context, d *client.Desktop, script string) error {
	res, err := d.Execs().Run(ctx, api.Exec{Shell: script})
	if err == nil && res.ExitCode != 0 {
		err = fmt.Errorf("sh %q: exit %d: %s", script, res.ExitCode, res.Stderr)
	}
	return err
}
