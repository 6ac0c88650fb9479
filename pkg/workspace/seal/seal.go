// Package seal encrypts what leaves the host, with age: to whoever has the store
// and not the key, objects are names and sizes. Names hold no hash of plain
// bytes: give Key to whoever makes them.
package seal

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// Objects encrypts the objects of another store. Within each lies, before the
// object, a keyed hash of its name: an object that was made by somebody without
// the key, or moved, is refused. Objects without bytes, which are marks, stay as
// they are. List tells of sizes as they are stored.
type Objects struct {
	workspace.Objects

	to   age.Recipient
	keys []age.Identity
	key  []byte
}

var _ workspace.Objects = (*Objects)(nil)

// NewKey makes the content of a key file: one identity of age, of the kind that
// future machines do not break either.
func NewKey() (string, error) {
	id, err := age.GenerateHybridIdentity()
	if err != nil {
		return "", fmt.Errorf("make key: %w", err)
	}
	return id.String() + "\n", nil
}

// New wraps a store. keyFile has identities of age, one a line: the first one
// encrypts, all decrypt, so a new key goes on top. The last one also makes the
// hashes and must stay.
func New(o workspace.Objects, keyFile io.Reader) (*Objects, error) {
	keys, err := age.ParseIdentities(keyFile)
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	s := &Objects{Objects: o, keys: keys}
	switch id := keys[0].(type) {
	case *age.X25519Identity:
		s.to = id.Recipient()
	case *age.HybridIdentity:
		s.to = id.Recipient()
	default:
		return nil, errors.New("read key file: the first key cannot encrypt")
	}
	last, ok := keys[len(keys)-1].(fmt.Stringer)
	if !ok {
		return nil, errors.New("read key file: the last key has no text")
	}
	if s.key, err = hkdf.Key(sha256.New, []byte(last.String()), nil, "deskfork workspace hashes", sha256.Size); err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return s, nil
}

// Key is the secret for hashes of plain bytes.
func (s *Objects) Key() []byte { return bytes.Clone(s.key) }

// tag is what lies before an object.
func (s *Objects) tag(key string) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte("object " + key))
	return h.Sum(nil)
}

// Put implements workspace.Objects. The object is held in memory.
func (s *Objects) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	if size == 0 {
		return s.Objects.Put(ctx, key, body, size)
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, s.to)
	if err != nil {
		return fmt.Errorf("encrypt %s: %w", key, err)
	}
	_, err = w.Write(s.tag(key))
	n, copyErr := io.Copy(w, io.NewSectionReader(body, 0, size))
	if err = errors.Join(err, copyErr, w.Close()); err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("encrypt %s: %w", key, err)
	}
	return s.Objects.Put(ctx, key, bytes.NewReader(out.Bytes()), int64(out.Len()))
}

// Stat implements workspace.Objects; the size is that of the plain object.
func (s *Objects) Stat(ctx context.Context, key string) (workspace.Info, error) {
	info, err := s.Objects.Stat(ctx, key)
	if err != nil || info.Size == 0 {
		return info, err
	}
	src := &source{ctx: ctx, objects: s.Objects, key: key, size: info.Size}
	head, err := age.ExtractHeader(io.NewSectionReader(src, 0, info.Size))
	if err != nil {
		return info, src.fault(err)
	}
	const nonce, piece, overhead = 16, 64 << 10, 16
	payload := info.Size - int64(len(head)) - nonce
	info.Size = payload - (payload+piece+overhead-1)/(piece+overhead)*overhead - sha256.Size
	if info.Size < 0 {
		return info, src.fault(io.ErrUnexpectedEOF)
	}
	return info, nil
}

// Get implements workspace.Objects. From the beginning it takes one request of
// the store below, from elsewhere a few.
func (s *Objects) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	info, err := s.Objects.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if info.Size == 0 {
		return s.Objects.Get(ctx, key, off, n)
	}
	src := &source{ctx: ctx, objects: s.Objects, key: key, size: info.Size}
	r, err := s.open(src, off, n)
	if err != nil {
		_ = src.Close()
		return nil, src.fault(err)
	}
	return &reader{r, src}, nil
}

func (s *Objects) open(src *source, off, n int64) (r io.Reader, err error) {
	tag := make([]byte, sha256.Size)
	if off == 0 {
		r, err = s.stream(src, n, tag)
	} else {
		r, err = s.window(src, off, n, tag)
	}
	if err == nil && !hmac.Equal(tag, s.tag(src.key)) {
		err = errForged
	}
	return r, err
}

// stream reads from the beginning.
func (s *Objects) stream(src *source, n int64, tag []byte) (io.Reader, error) {
	r, err := age.Decrypt(io.NewSectionReader(src, 0, src.size), s.keys...)
	if err == nil {
		_, err = io.ReadFull(r, tag)
	}
	if err == nil && n >= 0 {
		r = io.LimitReader(r, n)
	}
	return r, err
}

// window reads from elsewhere.
func (s *Objects) window(src *source, off, n int64, tag []byte) (io.Reader, error) {
	src.windows = true
	r, size, err := age.DecryptReaderAt(src, src.size, s.keys...)
	if err != nil {
		return nil, err
	}
	if _, err := r.ReadAt(tag, 0); err != nil {
		return nil, err
	}
	size -= sha256.Size
	if off >= size {
		return nil, fmt.Errorf("%w: offset %d of %d", workspace.ErrInvalid, off, size)
	}
	if n < 0 || n > size-off {
		n = size - off
	}
	src.limit = n
	return io.NewSectionReader(r, sha256.Size+off, n), nil
}

var errForged = errors.New("it was not written under this name by somebody with the key")

// reader gives plain bytes.
type reader struct {
	io.Reader

	src *source
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.src.fault(err)
	}
	return n, err
}

// Close ends the request below.
func (r *reader) Close() error { return r.src.Close() }
