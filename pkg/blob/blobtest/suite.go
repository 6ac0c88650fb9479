package blobtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/deskfork/deskfork/pkg/blob"
)

// Run holds a store to the contract of blob.Store; open gives an empty one.
func Run(t *testing.T, open func(*testing.T) blob.Store) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, blob.Store)
	}{
		{"once", putOnce},
		{"ranges", ranges},
		{"missing", missing},
		{"keys", keys},
		{"pages", pages},
		{"body", body},
		{"cancelled", cancelled},
		{"model", model},
		{"race of one key", raceOneKey},
		{"race of many", raceMany},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func put(t *testing.T, s blob.Store, key, data string) {
	t.Helper()
	if err := s.Put(t.Context(), key, strings.NewReader(data), int64(len(data))); err != nil {
		t.Fatalf("put %s: %v", key, err)
	}
}

func read(ctx context.Context, s blob.Store, key string, off, n int64) (string, error) {
	r, err := s.Get(ctx, key, off, n)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}

func putOnce(t *testing.T, s blob.Store) {
	t.Helper()
	put(t, s, "a/b", "first")
	err := s.Put(t.Context(), "a/b", strings.NewReader("other"), 5)
	if !errors.Is(err, blob.ErrExists) || blob.Retryable(err) {
		t.Errorf("put of a taken key: %v", err)
	}
	if got, err := read(t.Context(), s, "a/b", 0, -1); got != "first" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	put(t, s, "empty", "")
	if got, err := read(t.Context(), s, "empty", 0, -1); got != "" || err != nil {
		t.Errorf("empty blob: %q, %v", got, err)
	}
	b, err := s.Stat(t.Context(), "a/b")
	if err != nil || b.Key != "a/b" || b.Size != 5 || b.Modified.IsZero() {
		t.Errorf("stat: %+v, %v", b, err)
	}
	for range 2 { // the second finds nothing, and that is well
		if err := s.Delete(t.Context(), "a/b"); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	put(t, s, "a/b", "again")
}

func ranges(t *testing.T, s blob.Store) {
	t.Helper()
	const data = "0123456789"
	put(t, s, "r", data)
	for _, c := range []struct {
		off, n int64
		want   string
	}{{0, -1, data}, {0, 3, "012"}, {3, 4, "3456"}, {9, 1, "9"}, {9, -1, "9"}, {7, 100, "789"}, {0, 10, data}} {
		if got, err := read(t.Context(), s, "r", c.off, c.n); got != c.want || err != nil {
			t.Errorf("get %d+%d: %q, %v; want %q", c.off, c.n, got, err, c.want)
		}
	}
	for _, c := range [][2]int64{{10, 1}, {10, -1}, {11, 1}, {-1, 1}, {0, 0}} {
		if _, err := read(t.Context(), s, "r", c[0], c[1]); !errors.Is(err, blob.ErrRange) {
			t.Errorf("get %d+%d: %v, want ErrRange", c[0], c[1], err)
		}
	}
}

func missing(t *testing.T, s blob.Store) {
	t.Helper()
	put(t, s, "there/too", "x")
	for _, key := range []string{"nothing", "there", "there/to", "there/tooo", "no/such/place"} {
		if _, err := read(t.Context(), s, key, 0, -1); !errors.Is(err, blob.ErrNotFound) || blob.Retryable(err) {
			t.Errorf("get %s: %v", key, err)
		}
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("stat %s: %v", key, err)
		}
	}
	if page, err := s.List(t.Context(), "no/such/", "", 10); len(page) != 0 || err != nil {
		t.Errorf("list: %v, %v", page, err)
	}
}

func keys(t *testing.T, s blob.Store) {
	t.Helper()
	for _, key := range []string{"", "/abs", "../up", "a/../../up", "a//b", ".hidden", "a/.tmp", "UP", "nul\x00", strings.Repeat("k", 600)} {
		if err := s.Put(t.Context(), key, strings.NewReader("x"), 1); !errors.Is(err, blob.ErrKey) {
			t.Errorf("put %.40q: %v, want ErrKey", key, err)
		}
		if _, err := read(t.Context(), s, key, 0, -1); !errors.Is(err, blob.ErrKey) && !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("get %.40q: %v", key, err)
		}
	}
	if _, err := s.List(t.Context(), "../", "", 10); !errors.Is(err, blob.ErrKey) {
		t.Errorf("list above the root: %v, want ErrKey", err)
	}
	long := strings.Repeat(strings.Repeat("d", 60)+"/", 8) + "f"
	put(t, s, long, "deep")
	if got, err := read(t.Context(), s, long, 0, -1); got != "deep" || err != nil {
		t.Errorf("long key: %q, %v", got, err)
	}
}

func pages(t *testing.T, s blob.Store) {
	t.Helper()
	// The order of bytes is not that of directories: '-' and '.' come before '/'.
	all := []string{"p/a-b", "p/a.b/c", "p/a/b", "p/a/c/d", "p/a0", "p/b", "p/b0/x", "q"}
	for _, i := range rand.Perm(len(all)) {
		put(t, s, all[i], "x")
	}
	for limit := 1; limit <= len(all)+1; limit++ {
		for _, prefix := range []string{"", "p/", "p/a", "p/a/", "p/b", "q", "r/"} {
			var got, want []string
			for _, k := range all {
				if strings.HasPrefix(k, prefix) {
					want = append(want, k)
				}
			}
			for after := ""; ; after = got[len(got)-1] {
				page, err := s.List(t.Context(), prefix, after, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("list %q after %q: %d, %v", prefix, after, len(page), err)
				}
				for _, b := range page {
					got = append(got, b.Key)
				}
				if len(page) < limit {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("list %q by %d: %v, want %v", prefix, limit, got, want)
			}
		}
	}
	if page, err := s.List(t.Context(), "p/", "p/a/bb", 2); err != nil || len(page) != 2 || page[0].Key != "p/a/c/d" {
		t.Errorf("list after a key that is not there: %v, %v", page, err)
	}
}

// body: a source that fails or is short leaves no blob.
func body(t *testing.T, s blob.Store) {
	t.Helper()
	broken := errors.New("disk is broken")
	if err := s.Put(t.Context(), "broken", readerAt(func(p []byte, off int64) (int, error) {
		if off+int64(len(p)) > 5000 {
			return 0, broken
		}
		return len(p), nil
	}), 100_000); !errors.Is(err, broken) {
		t.Errorf("put of a broken source: %v", err)
	}
	if err := s.Put(t.Context(), "short", strings.NewReader("abc"), 4); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("put of a short source: %v", err)
	}
	for _, key := range []string{"broken", "short"} {
		if _, err := s.Stat(t.Context(), key); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("stat %s after a failed put: %v", key, err)
		}
	}
	put(t, s, "prefix", strings.Repeat("z", 100_000))
	if err := s.Put(t.Context(), "part", strings.NewReader("abcdef"), 3); err != nil {
		t.Errorf("put of a part: %v", err)
	}
	if got, err := read(t.Context(), s, "part", 0, -1); got != "abc" || err != nil {
		t.Errorf("read %q, %v: a put takes size bytes, not more", got, err)
	}
}

type readerAt func([]byte, int64) (int, error)

// ReadAt implements io.ReaderAt.
func (f readerAt) ReadAt(p []byte, off int64) (int, error) { return f(p, off) }

func cancelled(t *testing.T, s blob.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, getErr := read(ctx, s, "c", 0, -1)
	_, statErr := s.Stat(ctx, "c")
	_, listErr := s.List(ctx, "", "", 1)
	for op, err := range map[string]error{
		"put": s.Put(ctx, "c", strings.NewReader("x"), 1), "get": getErr, "stat": statErr, "list": listErr, "delete": s.Delete(ctx, "c"),
	} {
		if !errors.Is(err, context.Canceled) || blob.Retryable(err) {
			t.Errorf("%s with a cancelled context: %v", op, err)
		}
	}
}

// model compares a random walk with a map.
func model(t *testing.T, s blob.Store) {
	t.Helper()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	want := map[string]string{}
	for i := range 150 {
		key := fmt.Sprintf("m%d/k%d", r.IntN(3), r.IntN(5))
		if err := step(t.Context(), s, r, key, want); err != nil {
			t.Fatalf("seed %d step %d: %s: %v", seed, i, key, err)
		}
	}
}

// step does one thing to the store and the map, and says where they differ.
func step(ctx context.Context, s blob.Store, r *rand.Rand, key string, want map[string]string) error {
	old, there := want[key]
	switch r.IntN(5) {
	case 0, 1:
		data := strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(9000))
		err := s.Put(ctx, key, strings.NewReader(data), int64(len(data)))
		if there {
			if !errors.Is(err, blob.ErrExists) {
				return fmt.Errorf("put of a taken key: %w", err)
			}
			return nil
		}
		want[key] = data
		return err
	case 2:
		delete(want, key)
		return s.Delete(ctx, key)
	case 3:
		got, err := read(ctx, s, key, 0, -1)
		if got != old || there != (err == nil) || !there && !errors.Is(err, blob.ErrNotFound) {
			return fmt.Errorf("there %v, got %d of %d bytes: %w", there, len(got), len(old), err)
		}
	default:
		page, err := s.List(ctx, "", "", blob.MaxPage)
		if err != nil || len(page) != len(want) {
			return fmt.Errorf("list of %d, want %d: %w", len(page), len(want), err)
		}
		for _, b := range page {
			if int64(len(want[b.Key])) != b.Size {
				return fmt.Errorf("list says %+v", b)
			}
		}
	}
	return nil
}

// raceOneKey: writers of different bytes, readers beside them: whoever reads,
// reads one writer's bytes whole, and an atomic store lets one win.
func raceOneKey(t *testing.T, s blob.Store) {
	t.Helper()
	const writers, size = 6, 40_000
	sums := map[[32]byte]bool{}
	for w := range writers {
		sums[sha256.Sum256(bytes.Repeat([]byte{byte(w)}, size))] = true
	}
	var won atomic.Int32
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			err := s.Put(t.Context(), "race/one", bytes.NewReader(bytes.Repeat([]byte{byte(w)}, size)), size)
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, blob.ErrExists) {
				t.Errorf("put: %v", err)
			}
		})
		all.Go(func() {
			got, err := read(t.Context(), s, "race/one", 0, -1)
			if err == nil && !sums[sha256.Sum256([]byte(got))] {
				t.Errorf("read %d bytes that nobody wrote", len(got))
			} else if err != nil && !errors.Is(err, blob.ErrNotFound) {
				t.Errorf("get: %v", err)
			}
		})
	}
	all.Wait()
	if n := won.Load(); n < 1 || n > 1 && blob.IsAtomic(s) {
		t.Errorf("%d of %d puts won; atomic: %v", n, writers, blob.IsAtomic(s))
	}
}

// raceMany: what was put before a list began is in it, whatever comes and goes.
func raceMany(t *testing.T, s blob.Store) {
	t.Helper()
	for i := range 20 {
		put(t, s, fmt.Sprintf("many/%02d/stay", i), "x")
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 10 {
				key := fmt.Sprintf("many/%02d/%d", i, w)
				if err := s.Put(t.Context(), key, strings.NewReader("y"), 1); err != nil {
					t.Errorf("put: %v", err)
				}
				if err := s.Delete(t.Context(), key); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
		})
	}
	all.Go(func() {
		for range 5 {
			stay := 0
			for after, full := "", true; full; {
				page, err := s.List(t.Context(), "many/", after, 7)
				if err != nil {
					t.Errorf("list: %v", err)
					return
				}
				for _, b := range page {
					if after = b.Key; strings.HasSuffix(b.Key, "/stay") {
						stay++
					}
				}
				full = len(page) == 7
			}
			if stay != 20 {
				t.Errorf("list has %d of 20 blobs that were there all the time", stay)
			}
		}
	})
	all.Wait()
}
