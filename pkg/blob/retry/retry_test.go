package retry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/blob/retry"
)

func TestStore(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(*testing.T) blob.Store { return retry.New(&blobtest.Memory{}, retry.Config{}) })
}

// TestStorm: what was put in a storm of faults is there, and reads whole.
func TestStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			s := retry.New(blobtest.NewFaulty(&blobtest.Memory{}, blobtest.Storm(seed, 2)), retry.Config{})
			data := make([]byte, 30_000)
			_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(data)
			for _, key := range []string{"a", "b", "c"} {
				if err := s.Put(t.Context(), key, bytes.NewReader(data), int64(len(data))); err != nil && !errors.Is(err, blob.ErrExists) {
					t.Fatalf("seed %d: put: %v", seed, err)
				}
				for _, n := range []int64{-1, 20_000} {
					r, err := s.Get(t.Context(), key, 7, n)
					if err != nil {
						t.Fatalf("seed %d: get: %v", seed, err)
					}
					got, err := io.ReadAll(r)
					want := data[7:]
					if n > 0 {
						want = want[:n]
					}
					if err != nil || !bytes.Equal(got, want) {
						t.Errorf("seed %d: read %d of %d bytes, %v", seed, len(got), len(want), err)
					}
					_ = r.Close()
				}
			}
			if page, err := s.List(t.Context(), "", "", 10); err != nil || len(page) != 3 {
				t.Errorf("seed %d: list %v, %v", seed, page, err)
			}
		})
	}
}

// down is a store that answers again after a while.
func down(d time.Duration) *blobtest.Faulty {
	from := time.Now()
	return blobtest.NewFaulty(&blobtest.Memory{}, func(blobtest.Call) blobtest.Fault {
		return blobtest.Fault{Fail: time.Since(from) < d}
	})
}

func put(ctx context.Context, s blob.Store) error {
	return s.Put(ctx, "a", strings.NewReader("x"), 1)
}

func TestGoneForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		repeats := 0
		s := retry.New(down(time.Minute), retry.Config{Notice: func(error, time.Duration) { repeats++ }})
		if err := put(t.Context(), s); err != nil || repeats < 6 || repeats > 24 {
			t.Errorf("after a minute and %d repeats: %v", repeats, err)
		}
	})
}

// TestBrokenAtTheEnd: all bytes came, the end did not.
func TestBrokenAtTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := retry.New(blobtest.NewFaulty(&blobtest.Memory{}, func(blobtest.Call) blobtest.Fault {
			return blobtest.Fault{Cut: 10}
		}), retry.Config{})
		if err := s.Put(t.Context(), "a", strings.NewReader("0123456789"), 10); err != nil {
			t.Fatal(err)
		}
		r, err := s.Get(t.Context(), "a", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); string(got) != "0123456789" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := time.Now()
		err := put(t.Context(), retry.New(down(time.Hour), retry.Config{}))
		if !errors.Is(err, blobtest.ErrInjected) || time.Since(from) > 3*time.Minute || time.Since(from) < 2*time.Minute {
			t.Errorf("after %v: %v", time.Since(from), err)
		}
		calls := 0
		s := retry.New(blobtest.NewFaulty(&blobtest.Memory{}, func(blobtest.Call) blobtest.Fault {
			calls++
			return blobtest.Fault{Fail: true}
		}), retry.Config{Budget: 5})
		for range 10 {
			if err := put(t.Context(), s); !errors.Is(err, blobtest.ErrInjected) {
				t.Errorf("put: %v", err)
			}
		}
		if calls != 15 {
			t.Errorf("%d calls: ten callers have five repeats together", calls)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := put(ctx, retry.New(down(time.Hour), retry.Config{})); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("put with a deadline: %v", err)
		}
	})
}
