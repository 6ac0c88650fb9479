// Package parcel keeps streams in an object store: cut into parts, each known by
// its hash, so that nothing is read that was not written. Who keeps the list of
// parts, and its hash or its name, decides what is whole.
package parcel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/pkg/workspace"
)

const (
	// DefaultSize of a part, in bytes.
	DefaultSize = 8 << 20
	// ahead is how many parts are on their way at once.
	ahead = 3
)

// Part is a piece of a stream.
type Part struct {
	Size int    `json:"size"`
	Sum  string `json:"sha256"` // of the plain bytes
}

// Store is a place for streams. Safe for concurrent use.
type Store struct {
	Objects workspace.Objects
	Size    int // of a part; 0: DefaultSize
}

// key of a part.
func key(prefix string, number int) string { return fmt.Sprintf("%s%05d", prefix, number) }

// Hash is the hex SHA-256 of bytes.
func Hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Damaged says that an object is not what was written.
func Damaged(key, what string) error {
	return &workspace.DamageError{Key: key, What: what, Err: workspace.ErrCorrupt}
}

// Put stores a small object. One that is there already was put by an earlier
// attempt whose answer was lost; it is read, not trusted.
func (s Store) Put(ctx context.Context, key string, body []byte) error {
	err := s.Objects.Put(ctx, key, bytes.NewReader(body), int64(len(body)))
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	there, err := s.Get(ctx, key, len(body))
	if err == nil && !bytes.Equal(there, body) {
		err = Damaged(key, "something else was there before")
	}
	return err
}

// Get reads an object of at most so many bytes. One that is missing or longer is a
// *workspace.DamageError.
func (s Store) Get(ctx context.Context, key string, most int) ([]byte, error) {
	r, err := s.Objects.Get(ctx, key, 0, -1)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &workspace.DamageError{Key: key, Err: workspace.ErrMissing}
	}
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(b) > most {
		err = Damaged(key, "it is longer than what was written")
	}
	return b, err
}

// Write stores what export writes below a prefix that is the caller's alone. With
// an error some of it may be there.
func (s Store) Write(ctx context.Context, prefix string, export func(ctx context.Context, w io.Writer) error) ([]Part, error) {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(ahead)
	c := &cutter{ctx: ctx, store: s, prefix: prefix, size: s.Size, work: work}
	if c.size == 0 {
		c.size = DefaultSize
	}
	err := export(ctx, c)
	if err == nil {
		err = c.cut()
	}
	if werr := work.Wait(); werr != nil { // the cause of whatever export said
		err = werr
	}
	if err == nil && len(c.parts) == 0 {
		err = errors.New("nothing was exported")
	}
	return c.parts, err
}

// Clear removes what lies below a prefix.
func (s Store) Clear(ctx context.Context, prefix string) error {
	return workspace.All(ctx, s.Objects, prefix, func(o workspace.Info) error { return s.Objects.Delete(ctx, o.Key) })
}

// cutter cuts a stream. It is for one goroutine.
type cutter struct {
	ctx    context.Context //nolint:containedctx // io.Writer has no room for it
	store  Store
	prefix string
	size   int
	work   *errgroup.Group

	buf   []byte
	parts []Part
}

// Write implements io.Writer.
func (c *cutter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), c.size-len(c.buf))
		c.buf, rest = append(c.buf, rest[:n]...), rest[n:]
		if len(c.buf) < c.size {
			break
		}
		if err := c.cut(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// cut sends what has come as a part, and waits while too many are on their way.
func (c *cutter) cut() error {
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	if len(c.buf) == 0 {
		return nil
	}
	body, at := c.buf, key(c.prefix, len(c.parts))
	c.buf, c.parts = nil, append(c.parts, Part{Size: len(body), Sum: Hash(body)})
	c.work.Go(func() error { return c.store.Put(c.ctx, at, body) })
	return nil
}

// Open reads a stream. Bytes come when their part was compared with its hash, and
// not before; the first that is missing or not what was written is a
// *workspace.DamageError. The reader needs no end.
func (s Store) Open(ctx context.Context, prefix string, parts []Part) io.Reader {
	return &reader{ctx: ctx, store: s, prefix: prefix, parts: parts}
}

// reader gives the parts one after the other. It is for one goroutine.
type reader struct {
	ctx    context.Context //nolint:containedctx // io.Reader has no room for it
	store  Store
	prefix string
	parts  []Part // of all of it

	next int
	buf  []byte
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 {
		if r.next == len(r.parts) {
			return 0, io.EOF
		}
		at, want := key(r.prefix, r.next), r.parts[r.next]
		b, err := r.store.Get(r.ctx, at, want.Size)
		if err != nil {
			return 0, err
		}
		if len(b) != want.Size || Hash(b) != want.Sum {
			return 0, Damaged(at, "it is not what was written")
		}
		r.buf = b
		r.next++
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}
