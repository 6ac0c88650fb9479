// Package s3 is a blob store in a bucket of S3 or of a server that speaks its
// language. It tries each call once and says of each error whether trying again
// helps; package retry does that. It needs permission to get, put, list and
// delete objects, to list a bucket's uploads and to abort them.
package s3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/deskfork/deskfork/pkg/blob"
)

// Config says where the bucket is.
type Config struct {
	Endpoint  string // host or host:port
	Secure    bool   // HTTPS
	Region    string // us-east-1 when empty
	Bucket    string
	Prefix    string // before every key, without a slash at its end; may be empty
	AccessKey string
	SecretKey string
	// PartSize is above what size a blob goes up in parts, and how large they
	// are: 16 MiB, at least 5.
	PartSize int64
	// UploadLife is how old an upload in parts is when Open takes it for
	// abandoned; 24 h. It is to be longer than any upload and any clock's error.
	UploadLife time.Duration
	// Stall is how long a body may stand still, on its way in or out; 1 min.
	Stall time.Duration
	// AbortWait is how long to wait for parts on their way when an upload has
	// been aborted; 2 s.
	AbortWait time.Duration
	Transport http.RoundTripper // nil for one with time limits
}

// Store is a bucket, or what lies below a prefix in it.
type Store struct {
	conf   Config
	core   *minio.Core
	atomic bool
}

var _ interface {
	blob.Store
	blob.Atomic
} = (*Store)(nil)

// Open connects, finds out whether the server honours conditional writes, and
// aborts uploads that were abandoned below the prefix.
func Open(ctx context.Context, c Config) (*Store, error) {
	s, err := newStore(c)
	if err != nil {
		return nil, fmt.Errorf("open bucket %s: %w", c.Bucket, err)
	}
	if err := s.probe(ctx); err != nil {
		return nil, fmt.Errorf("open bucket %s at %s: %w", c.Bucket, c.Endpoint, err)
	}
	if _, err := s.Clean(ctx, "", s.conf.UploadLife); err != nil {
		return nil, err
	}
	return s, nil
}

func newStore(c Config) (*Store, error) {
	def := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	def(&c.UploadLife, 24*time.Hour)
	def(&c.Stall, time.Minute)
	def(&c.AbortWait, 2*time.Second)
	if c.Region == "" {
		c.Region = "us-east-1" // and no request to find out
	}
	if c.PartSize <= 0 {
		c.PartSize = 16 << 20
	}
	if c.PartSize < 5<<20 {
		return nil, fmt.Errorf("parts of %d bytes: S3 wants 5 MiB at least", c.PartSize)
	}
	if err := blob.CheckPrefix(c.Prefix); err != nil {
		return nil, err
	}
	if c.Prefix != "" {
		c.Prefix += "/"
	}
	if c.Transport == nil {
		t, err := minio.DefaultTransport(c.Secure)
		if err != nil {
			return nil, err
		}
		t.ResponseHeaderTimeout = 30 * time.Second
		c.Transport = t
	}
	core, err := minio.NewCore(c.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""), Secure: c.Secure, Region: c.Region,
		Transport: guard{c.Transport, c.Stall}, MaxRetries: 1,
	})
	if err != nil {
		return nil, err
	}
	return &Store{conf: c, core: core}, nil
}

// probe writes one object twice. It lies where no key leads.
func (s *Store) probe(ctx context.Context) error {
	name := s.conf.Prefix + ".probe/" + strings.ToLower(rand.Text())
	put := func() error {
		opts := minio.PutObjectOptions{}
		opts.SetMatchETagExcept("*")
		return s.putOnce(ctx, name, strings.NewReader("x"), 1, opts)
	}
	first := put()
	second := put()
	s.atomic = first == nil && errors.Is(fault("put", name, second), blob.ErrExists)
	if first != nil && !unsupported(first) {
		return fault("put", name, first)
	}
	return fault("delete", name, s.core.RemoveObject(ctx, s.conf.Bucket, name, minio.RemoveObjectOptions{}))
}

// Atomic implements blob.Atomic.
func (s *Store) Atomic() bool { return s.atomic }

// Put implements blob.Store. Without conditional writes it looks first.
func (s *Store) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	if err := blob.CheckKey(key); err != nil {
		return &blob.Error{Op: "put", Key: key, Err: err}
	}
	opts := minio.PutObjectOptions{ContentType: "application/octet-stream"}
	large := size > s.conf.PartSize
	if s.atomic {
		opts.SetMatchETagExcept("*")
	}
	if !s.atomic || large {
		_, err := s.Stat(ctx, key)
		if err == nil {
			return &blob.Error{Op: "put", Key: key, Err: blob.ErrExists}
		}
		if !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	if large {
		return fault("put", key, s.putParts(ctx, s.conf.Prefix+key, body, size, opts))
	}
	err := fault("put", key, s.putOnce(ctx, s.conf.Prefix+key, body, size, opts))
	if s.atomic && blob.Retryable(err) {
		// A server that refuses a taken key before it has read the body cuts the
		// connection, and its answer with it: it would be lost each time.
		if _, serr := s.Stat(ctx, key); serr == nil {
			err = &blob.Error{Op: "put", Key: key, Err: blob.ErrExists}
		}
	}
	return err
}

func (s *Store) putOnce(ctx context.Context, name string, body io.ReaderAt, size int64, opts minio.PutObjectOptions) error {
	sum, err := digest(ctx, body, 0, size)
	if err != nil {
		return err
	}
	_, err = s.core.PutObject(ctx, s.conf.Bucket, name, io.NewSectionReader(body, 0, size), size, "", sum, opts)
	return err
}

// digest is what the server compares the bytes with.
func digest(ctx context.Context, body io.ReaderAt, off, size int64) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.NewSectionReader(body, off, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return "", &sourceError{err}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	err := blob.CheckKey(key)
	if err == nil && (off < 0 || n == 0) {
		err = blob.ErrRange
	}
	opts := minio.GetObjectOptions{}
	switch {
	case err != nil:
	case n > 0:
		err = opts.SetRange(off, off+n-1)
	case off > 0:
		err = opts.SetRange(off, 0)
	}
	if err != nil {
		return nil, &blob.Error{Op: "get", Key: key, Err: err}
	}
	body, _, head, err := s.core.GetObject(ctx, s.conf.Bucket, s.conf.Prefix+key, opts)
	if err == nil && (n > 0 || off > 0) && !strings.HasPrefix(head.Get("Content-Range"), fmt.Sprintf("bytes %d-", off)) {
		_ = body.Close()
		err = fmt.Errorf("server sent range %q", head.Get("Content-Range"))
	}
	if err != nil {
		return s.emptyBlob(ctx, key, off, fault("get", key, err))
	}
	return &reader{body, key}, nil
}

// emptyBlob: no range lies in a blob of no bytes, and yet it can be read.
func (s *Store) emptyBlob(ctx context.Context, key string, off int64, err error) (io.ReadCloser, error) {
	if off == 0 && errors.Is(err, blob.ErrRange) {
		if b, statErr := s.Stat(ctx, key); statErr == nil && b.Size == 0 {
			return io.NopCloser(strings.NewReader("")), nil
		}
	}
	return nil, err
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, &blob.Error{Op: "stat", Key: key, Err: err}
	}
	o, err := s.core.StatObject(ctx, s.conf.Bucket, s.conf.Prefix+key, minio.StatObjectOptions{})
	if err != nil {
		return blob.Info{}, fault("stat", key, err)
	}
	return blob.Info{Key: key, Size: o.Size, Modified: o.LastModified}, nil
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := blob.CheckPrefix(prefix); err != nil {
		return nil, &blob.Error{Op: "list", Key: prefix, Err: err}
	}
	limit = min(limit, blob.MaxPage)
	opts := minio.ListObjectsOptions{Prefix: s.conf.Prefix + prefix, Recursive: true, MaxKeys: limit}
	if after != "" {
		opts.StartAfter = s.conf.Prefix + after
	}
	var page []blob.Info
	for o := range s.core.ListObjectsIter(ctx, s.conf.Bucket, opts) {
		if o.Err != nil {
			return nil, fault("list", prefix, o.Err)
		}
		key := strings.TrimPrefix(o.Key, s.conf.Prefix)
		if blob.CheckKey(key) != nil || key <= after {
			continue // none of ours: a probe, or a directory of the server
		}
		if page = append(page, blob.Info{Key: key, Size: o.Size, Modified: o.LastModified}); len(page) == limit {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, &blob.Error{Op: "list", Key: prefix, Err: err}
	}
	return page, nil
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return &blob.Error{Op: "delete", Key: key, Err: err}
	}
	err := fault("delete", key, s.core.RemoveObject(ctx, s.conf.Bucket, s.conf.Prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	return err
}
