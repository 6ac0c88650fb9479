// Package blob is the vocabulary of the blob store: where checkpoints and
// outputs lie when their desktop is gone. A blob is written once and never
// changes, so its key names its content or is drawn anew; a store owes no more
// than that, and a directory can be one as well as S3.
package blob

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// Info is what a store knows of a blob. It is an alias, so that a consumer can
// declare the methods it uses without importing this package.
type Info = struct {
	Key  string
	Size int64 // bytes
	// Modified is by the store's clock, which may be minutes off: it tells old
	// from new, and decides nothing.
	Modified time.Time
}

// Store keeps blobs. All methods may be called at the same time. What a method
// has done is visible to every call that starts after it returned; a call that
// failed may have had its effect all the same, or have it soon.
type Store interface {
	// Put stores size bytes of body under key unless the key is taken, which
	// is ErrExists and changes nothing. A blob appears whole or not at all.
	// Two concurrent Puts of one key may both succeed, and either's bytes stay,
	// unless the store says Atomic. After a failed Put the next may find
	// ErrExists: its own earlier attempt got through.
	Put(ctx context.Context, key string, body io.ReaderAt, size int64) error
	// Get reads n bytes from off, fewer where the blob ends, all of the rest
	// when n is negative. The reader gives exactly these or an error, never a
	// short stream that ends well. ErrNotFound, or ErrRange when off is not
	// inside the blob (0 always is) or n is 0.
	Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error)
	// Stat is ErrNotFound when there is no such blob.
	Stat(ctx context.Context, key string) (Info, error)
	// List gives up to limit blobs (MaxPage at most) whose keys begin with
	// prefix and come after the key after, in the order of their bytes. A page
	// that is not full is the last. A blob that is there from before List began
	// until after it ended is never left out.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// Delete removes a blob; one that is not there is no error.
	Delete(ctx context.Context, key string) error
}

// Bounds of keys and pages.
const (
	MaxKey     = 512  // bytes
	MaxSegment = 128  // bytes between slashes
	MaxPage    = 1000 // blobs
)

// Atomic is the ability to refuse the second of two concurrent Puts. Correctness
// must not rest on it: it saves uploads.
type Atomic interface {
	// Atomic says whether the store behind really does it.
	Atomic() bool
}

// IsAtomic says whether s, or what it wraps, refuses the second of two
// concurrent Puts.
func IsAtomic(s Store) bool {
	a, ok := As[Atomic](s)
	return ok && a.Atomic()
}

// As finds an ability of a store below its wrappers, which show what they wrap
// with Unwrap.
func As[A any](s Store) (A, bool) {
	for s != nil {
		if a, ok := s.(A); ok {
			return a, true
		}
		w, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = w.Unwrap()
	}
	var none A
	return none, false
}

// CheckKey reports why key cannot name a blob: segments of a-z, 0-9, '-', '_'
// and '.', joined by slashes, none of them beginning with a dot. That fits every
// file system and needs no escapes in a URL. A key and another one with a slash
// and more behind it do not go together: a directory cannot hold both.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrKey, len(key), MaxKey)
	}
	for s := range strings.SplitSeq(key, "/") {
		if s == "" || s[0] == '.' || len(s) > MaxSegment || !plain(s) {
			return fmt.Errorf("%w: %.600q", ErrKey, key)
		}
	}
	return nil
}

// CheckPrefix reports why prefix cannot begin a key; the empty one can.
func CheckPrefix(prefix string) error {
	if prefix == "" {
		return nil
	}
	return CheckKey(strings.TrimSuffix(prefix, "/"))
}

// CheckRange is ErrRange unless a blob of size bytes has something at off.
func CheckRange(off, n, size int64) error {
	if off < 0 || n == 0 || off > 0 && off >= size {
		return fmt.Errorf("%w: %d bytes at %d of %d", ErrRange, n, off, size)
	}
	return nil
}

func plain(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
