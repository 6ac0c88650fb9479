//go:build integration

package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/blob/retry"
	"github.com/deskfork/deskfork/pkg/blob/s3"
	"github.com/deskfork/deskfork/pkg/blob/s3test"
)

var prefixes atomic.Int32

// open gives a store with a prefix of its own.
func open(t *testing.T, addr string, change ...func(*s3.Config)) *s3.Store {
	t.Helper()
	c := s3.Config{
		Endpoint: addr, Bucket: s3test.Bucket, Prefix: fmt.Sprintf("tests/p%d", prefixes.Add(1)),
		AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey, PartSize: 5 << 20, AbortWait: 50 * time.Millisecond,
	}
	for _, f := range change {
		f(&c)
	}
	s, err := s3.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	addr := s3test.Start(t, t.TempDir())
	t.Run("conditional", func(t *testing.T) {
		t.Parallel()
		blobtest.Run(t, func(t *testing.T) blob.Store {
			t.Helper()
			s := open(t, addr)
			if !s.Atomic() {
				t.Error("conditional writes were not found")
			}
			return s
		})
	})
	t.Run("without conditional writes", func(t *testing.T) {
		t.Parallel()
		blobtest.Run(t, func(t *testing.T) blob.Store {
			t.Helper()
			s := open(t, addr)
			s.Forget()
			return s
		})
	})
	t.Run("probe", func(t *testing.T) {
		t.Parallel()
		for name, status := range map[string]int{"ignored": http.StatusOK, "not implemented": http.StatusNotImplemented} {
			var puts atomic.Int32
			p := s3test.NewProxy(t, addr, func(r *http.Request) s3test.Trouble {
				if r.Method == http.MethodPut && (puts.Add(1) == 2 || status != http.StatusOK) {
					return s3test.Trouble{Status: status}
				}
				return s3test.Trouble{}
			})
			if open(t, p.Addr).Atomic() {
				t.Errorf("%s: conditional writes were found", name)
			}
		}
	})
}

func random(n int) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(data)
	return data
}

func put(t *testing.T, s blob.Store, key string, data []byte) error {
	t.Helper()
	return s.Put(t.Context(), key, bytes.NewReader(data), int64(len(data)))
}

func get(t *testing.T, s blob.Store, key string) ([]byte, error) {
	t.Helper()
	r, err := s.Get(t.Context(), key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

func TestParts(t *testing.T) {
	t.Parallel()
	addr := s3test.Start(t, t.TempDir())
	s := open(t, addr)
	data := random(12 << 20)
	if err := put(t, s, "large", data); err != nil {
		t.Fatal(err)
	}
	if got, err := get(t, s, "large"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := put(t, s, "large", data); !errors.Is(err, blob.ErrExists) {
		t.Errorf("again: %v", err)
	}
	left := func(s *s3.Store) int {
		n, err := s.Clean(t.Context(), "", -time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for name, trouble := range map[string]func(*http.Request) s3test.Trouble{
		"second part cut": func(r *http.Request) s3test.Trouble {
			if r.URL.Query().Get("partNumber") == "2" {
				return s3test.Trouble{CutRequest: 1 << 20}
			}
			return s3test.Trouble{}
		},
		"third part refused": func(r *http.Request) s3test.Trouble {
			if r.URL.Query().Get("partNumber") == "3" {
				return s3test.Trouble{Status: http.StatusServiceUnavailable}
			}
			return s3test.Trouble{}
		},
		"part's answer lost, first abort lost": func() func(r *http.Request) s3test.Trouble {
			var aborts atomic.Int32
			return func(r *http.Request) s3test.Trouble {
				return s3test.Trouble{
					Lose:   r.URL.Query().Get("partNumber") == "1",
					Refuse: r.Method == http.MethodDelete && r.URL.Query().Has("uploadId") && aborts.Add(1) == 1,
				}
			}
		}(),
		"completion refused": func(r *http.Request) s3test.Trouble {
			return s3test.Trouble{Refuse: r.Method == http.MethodPost && r.URL.Query().Has("uploadId")}
		},
	} {
		p := s3test.NewProxy(t, addr, trouble)
		bad := open(t, p.Addr)
		if err := put(t, bad, "large", data); !blob.Retryable(err) {
			t.Errorf("%s: %v", name, err)
		}
		if n := left(bad); n != 0 {
			t.Errorf("%s: %d uploads are left", name, n)
		}
		if _, err := bad.Stat(t.Context(), "large"); !errors.Is(err, blob.ErrNotFound) {
			t.Errorf("%s: stat: %v", name, err)
		}
	}
}

// TestJanitor: uploads that were abandoned go by prefix and age.
func TestJanitor(t *testing.T) {
	t.Parallel()
	addr := s3test.Start(t, t.TempDir())
	s, other := open(t, addr), open(t, addr)
	for key, in := range map[string]*s3.Store{"a/one": s, "b/two": s, "a/three": other} {
		if _, err := in.Begin(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		s      *s3.Store
		prefix string
		age    time.Duration
		want   int
	}{{s, "", time.Hour, 0}, {s, "a/", -time.Hour, 1}, {s, "", -time.Hour, 1}, {s, "", -time.Hour, 0}, {other, "", -time.Hour, 1}} {
		if n, err := c.s.Clean(t.Context(), c.prefix, c.age); err != nil || n != c.want {
			t.Errorf("clean %q of %v: %d, %v; want %d", c.prefix, c.age, n, err, c.want)
		}
	}
}

// TestTroubles: with retries, what was put is there and reads whole, whatever
// happens to one request in three.
func TestTroubles(t *testing.T) {
	t.Parallel()
	addr := s3test.Start(t, t.TempDir())
	data := random(300_000)
	for name, trouble := range map[string]s3test.Trouble{
		"503":          {Status: http.StatusServiceUnavailable},
		"429":          {Status: http.StatusTooManyRequests},
		"refused":      {Refuse: true},
		"lost answer":  {Lose: true},
		"cut request":  {CutRequest: 1000},
		"cut answer":   {CutAnswer: 100_001},
		"short reads":  {Dribble: 777},
		"latency":      {Delay: 30 * time.Millisecond},
		"stalled read": {CutAnswer: 5000, Stall: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			var begun atomic.Bool
			p := s3test.NewProxy(t, addr, func(r *http.Request) s3test.Trouble {
				// An answer is cut in a stream, not where there is no body.
				streams := trouble.CutAnswer == 0 || r.Method == http.MethodGet && r.URL.RawQuery == ""
				if !begun.Load() || !streams || requests.Add(1)%3 != 0 {
					return s3test.Trouble{}
				}
				return trouble
			})
			same := func(c *s3.Config) { c.Prefix = "troubles/" + strings.ReplaceAll(name, " ", "-") }
			impatient := func(c *s3.Config) {
				if trouble.Stall {
					c.Stall = 200 * time.Millisecond
				}
			}
			below, spoilt := open(t, addr, same), open(t, p.Addr, same, impatient)
			begun.Store(true)
			s := retry.New(spoilt, retry.Config{First: time.Millisecond, Max: 10 * time.Millisecond})
			for i := range 6 {
				key := fmt.Sprintf("k%d", i)
				if err := put(t, s, key, data); err != nil && !errors.Is(err, blob.ErrExists) {
					t.Fatalf("put: %v", err)
				}
				for _, from := range []blob.Store{s, below} {
					if got, err := get(t, from, key); err != nil || !bytes.Equal(got, data) {
						t.Fatalf("read %d bytes, %v", len(got), err)
					}
				}
			}
			if page, err := s.List(t.Context(), "", "", 10); err != nil || len(page) != 6 {
				t.Errorf("list: %v, %v", page, err)
			}
			if requests.Load() < 6 {
				t.Errorf("%d requests: no trouble came", requests.Load())
			}
		})
	}
}

// TestStalledList: an answer that stops in a list ends the call too.
func TestStalledList(t *testing.T) {
	t.Parallel()
	addr := s3test.Start(t, t.TempDir())
	var stall atomic.Bool
	p := s3test.NewProxy(t, addr, func(r *http.Request) s3test.Trouble {
		if stall.Load() && r.URL.Query().Get("list-type") == "2" {
			return s3test.Trouble{CutAnswer: 50, Stall: true}
		}
		return s3test.Trouble{}
	})
	s := open(t, p.Addr, func(c *s3.Config) { c.Stall = 100 * time.Millisecond })
	if err := put(t, s, "a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	stall.Store(true)
	if _, err := s.List(t.Context(), "", "", 10); !blob.Retryable(err) {
		t.Errorf("list: %v", err)
	}
}

// TestClasses: what no repeat mends is not repeated.
func TestClasses(t *testing.T) {
	t.Parallel()
	addr := s3test.Start(t, t.TempDir())
	for name, change := range map[string]func(*s3.Config){
		"wrong secret": func(c *s3.Config) { c.SecretKey = "other" },
		"no bucket":    func(c *s3.Config) { c.Bucket = "nothing-here" },
	} {
		c := s3.Config{Endpoint: addr, Bucket: s3test.Bucket, AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey}
		change(&c)
		if _, err := s3.Open(t.Context(), c); err == nil || blob.Retryable(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s3.Open(t.Context(), s3.Config{Endpoint: "127.0.0.1:1", Bucket: s3test.Bucket}); !blob.Retryable(err) {
		t.Errorf("nobody there: %v", err)
	}
}
