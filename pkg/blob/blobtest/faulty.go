package blobtest

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
)

// ErrInjected is at the root of every injected error.
var ErrInjected = errors.New("injected fault")

// Call is one call of a store, counted from 1.
type Call struct {
	N   int
	Op  string // put, get, stat, list, delete
	Key string // or prefix
}

// Fault is what happens to one call; the zero value is nothing.
type Fault struct {
	Delay time.Duration // before the call
	Fail  bool          // the call does not happen; the error is retryable, as a 503 is
	Fatal bool          // the call does not happen; the error is not retryable
	Lost  bool          // the call happens, and a retryable error tells nothing of it
	Cut   int64         // a reader fails with a retryable error after so many bytes
	Short bool          // a reader gives a few bytes at a time
	Skew  time.Duration // added to Modified
	// Before runs before the call, for a test that interleaves something.
	Before func()
}

// Faulty injects faults into the calls of another store.
type Faulty struct {
	blob.Store

	plan func(Call) Fault

	mu    sync.Mutex
	calls int
}

// NewFaulty wraps s; plan decides the fate of each call, one call at a time.
func NewFaulty(s blob.Store, plan func(Call) Fault) *Faulty {
	return &Faulty{Store: s, plan: plan}
}

// Storm is a plan in which one call of every n goes wrong in one of the ways
// that can be tried again.
func Storm(seed uint64, n int) func(Call) Fault {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(Call) Fault {
		f := Fault{Skew: time.Duration(r.IntN(600)-300) * time.Second}
		if r.IntN(n) != 0 {
			return f
		}
		switch r.IntN(4) {
		case 0:
			f.Fail = true
		case 1:
			f.Lost = true
		case 2:
			f.Cut = 1 + r.Int64N(4096)
		default:
			f.Delay, f.Short = time.Millisecond, true
		}
		return f
	}
}

// Unwrap shows the store below.
func (f *Faulty) Unwrap() blob.Store { return f.Store }

// Put implements blob.Store.
func (f *Faulty) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	_, err := do(ctx, f, Call{Op: "put", Key: key}, func(Fault) (struct{}, error) {
		return struct{}{}, f.Store.Put(ctx, key, body, size)
	})
	return err
}

// Get implements blob.Store.
func (f *Faulty) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	return do(ctx, f, Call{Op: "get", Key: key}, func(p Fault) (io.ReadCloser, error) {
		r, err := f.Store.Get(ctx, key, off, n)
		if err == nil && (p.Cut > 0 || p.Short) {
			r = &faultyReader{ReadCloser: r, key: key, cut: p.Cut, short: p.Short}
		}
		return r, err
	})
}

// Stat implements blob.Store.
func (f *Faulty) Stat(ctx context.Context, key string) (blob.Info, error) {
	return do(ctx, f, Call{Op: "stat", Key: key}, func(p Fault) (blob.Info, error) {
		b, err := f.Store.Stat(ctx, key)
		b.Modified = b.Modified.Add(p.Skew)
		return b, err
	})
}

// List implements blob.Store.
func (f *Faulty) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	return do(ctx, f, Call{Op: "list", Key: prefix}, func(p Fault) ([]blob.Info, error) {
		page, err := f.Store.List(ctx, prefix, after, limit)
		for i := range page {
			page[i].Modified = page[i].Modified.Add(p.Skew)
		}
		return page, err
	})
}

// Delete implements blob.Store.
func (f *Faulty) Delete(ctx context.Context, key string) error {
	_, err := do(ctx, f, Call{Op: "delete", Key: key}, func(Fault) (struct{}, error) {
		return struct{}{}, f.Store.Delete(ctx, key)
	})
	return err
}

func do[T any](ctx context.Context, f *Faulty, c Call, call func(Fault) (T, error)) (T, error) {
	f.mu.Lock()
	f.calls++
	c.N = f.calls
	p := f.plan(c)
	f.mu.Unlock()
	var none T
	if p.Before != nil {
		p.Before()
	}
	if p.Delay > 0 {
		select {
		case <-time.After(p.Delay):
		case <-ctx.Done():
			return none, &blob.Error{Op: c.Op, Key: c.Key, Err: ctx.Err()}
		}
	}
	if p.Fail || p.Fatal {
		return none, &blob.Error{Op: c.Op, Key: c.Key, Retry: !p.Fatal, Err: ErrInjected}
	}
	out, err := call(p)
	if p.Lost {
		if r, ok := any(out).(io.Closer); ok && err == nil {
			_ = r.Close()
		}
		return none, &blob.Error{Op: c.Op, Key: c.Key, Retry: true, Err: ErrInjected}
	}
	return out, err
}

type faultyReader struct {
	io.ReadCloser

	key   string
	cut   int64 // bytes left before the cut; negative when it has come
	short bool
	reads int
}

// Read implements io.Reader.
func (r *faultyReader) Read(p []byte) (int, error) {
	if r.short { // 1, 2, 3, … 1000, 1, …
		p = p[:min(len(p), 1+r.reads%1000)]
		r.reads++
	}
	if r.cut == 0 {
		return r.ReadCloser.Read(p)
	}
	if r.cut < 0 {
		return 0, &blob.Error{Op: "get", Key: r.key, Retry: true, Err: ErrInjected}
	}
	n, err := r.ReadCloser.Read(p[:min(int64(len(p)), r.cut)])
	if r.cut -= int64(n); r.cut == 0 {
		r.cut = -1
	}
	return n, err
}
