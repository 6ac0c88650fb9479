// Package retry repeats the calls of a blob store that may succeed later: with
// growing pauses, jitter, a deadline for each call and one budget for all, so
// that a store in trouble is not flooded by those who wait for it. Streams that
// break go on where they broke.
package retry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
)

// Config has usable zero values.
type Config struct {
	// First and Max are the shortest and the longest pause; 0.2 s and 10 s.
	First, Max time.Duration
	// Patience is how long one call is repeated; 3 min.
	Patience time.Duration
	// Budget is how many repeats all calls together have; each success gives
	// back a tenth of one. 500.
	Budget int
	// Notice, when set, is called for each repeat.
	Notice func(err error, pause time.Duration)
}

// Store is a store with patience.
type Store struct {
	blob.Store

	conf Config

	mu     sync.Mutex
	tokens float64
}

var _ blob.Store = (*Store)(nil)

// New wraps a store.
func New(s blob.Store, c Config) *Store {
	def := func(d *time.Duration, to time.Duration) {
		if *d <= 0 {
			*d = to
		}
	}
	def(&c.First, 200*time.Millisecond)
	def(&c.Max, 10*time.Second)
	def(&c.Patience, 3*time.Minute)
	if c.Budget <= 0 {
		c.Budget = 500
	}
	return &Store{Store: s, conf: c, tokens: float64(c.Budget)}
}

// Unwrap shows the store below.
func (s *Store) Unwrap() blob.Store { return s.Store }

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	return s.do(ctx, func() error { return s.Store.Put(ctx, key, body, size) })
}

// Get implements blob.Store.
func (s *Store) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r := &reader{store: s, ctx: ctx, key: key, start: off, off: off, n: n}
	if err := s.do(ctx, r.open); err != nil {
		return nil, err
	}
	return r, nil
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, key string) (b blob.Info, err error) {
	err = s.do(ctx, func() error {
		b, err = s.Store.Stat(ctx, key)
		return err
	})
	return b, err
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, prefix, after string, limit int) (page []blob.Info, err error) {
	err = s.do(ctx, func() error {
		page, err = s.Store.List(ctx, prefix, after, limit)
		return err
	})
	return page, err
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.do(ctx, func() error { return s.Store.Delete(ctx, key) })
}

func (s *Store) do(ctx context.Context, call func() error) error {
	end := time.Now().Add(s.conf.Patience)
	for pause := s.conf.First; ; pause = min(2*pause, s.conf.Max) {
		err := call()
		if !blob.Retryable(err) {
			if err == nil {
				s.earn()
			}
			return err
		}
		// Half of the pause is chance, so that those who failed together do not
		// come back together.
		wait := pause/2 + rand.N(pause/2+1)
		if time.Now().Add(wait).After(end) {
			return fmt.Errorf("given up after %v: %w", s.conf.Patience, err)
		}
		if !s.spend() {
			return fmt.Errorf("given up, the budget of repeats is spent: %w", err)
		}
		if s.conf.Notice != nil {
			s.conf.Notice(err, wait)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

func (s *Store) spend() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens < 1 {
		return false
	}
	s.tokens--
	return true
}

func (s *Store) earn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = min(s.tokens+0.1, float64(s.conf.Budget))
}

// reader opens the blob again where its stream broke.
type reader struct {
	store *Store
	ctx   context.Context //nolint:containedctx // io.Reader has no room for it
	key   string
	start int64
	off   int64
	n     int64 // bytes still wanted; negative for all
	below io.ReadCloser
}

func (r *reader) open() (err error) {
	r.below, err = r.store.Store.Get(r.ctx, r.key, r.off, r.n)
	return err
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (n int, err error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	err = r.store.do(r.ctx, func() error {
		if r.below == nil {
			err := r.open()
			if errors.Is(err, blob.ErrRange) && r.off > r.start {
				return io.EOF // it broke between the last byte and the end
			}
			if err != nil {
				return err
			}
		}
		n, err = r.below.Read(p)
		r.off += int64(n)
		if r.n > 0 {
			r.n -= int64(n)
		}
		if n > 0 && err != nil && !errors.Is(err, io.EOF) {
			err = errors.Join(r.Close()) // what came counts; the next Read opens again
		} else if blob.Retryable(err) {
			_ = r.Close()
		}
		return err
	})
	return n, err
}

// Close closes the stream that is open.
func (r *reader) Close() error {
	if r.below == nil {
		return nil
	}
	err := r.below.Close()
	r.below = nil
	return err
}
