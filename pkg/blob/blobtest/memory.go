// Package blobtest is the contract of a blob store as code: a suite that every
// store passes, a store in memory that passes it, and one that injects faults
// into another.
package blobtest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
)

// Memory is a store in memory. The zero value is empty and ready.
type Memory struct {
	mu    sync.Mutex
	blobs map[string]stored
}

type stored struct {
	data     []byte
	modified time.Time
}

var _ interface {
	blob.Store
	blob.Atomic
} = (*Memory)(nil)

// Put implements blob.Store.
func (m *Memory) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	if err := blob.CheckKey(key); err != nil {
		return &blob.Error{Op: "put", Key: key, Err: err}
	}
	data, err := io.ReadAll(io.NewSectionReader(body, 0, size))
	if err == nil && int64(len(data)) != size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return &blob.Error{Op: "put", Key: key, Err: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.blobs[key]; ok {
		return &blob.Error{Op: "put", Key: key, Err: blob.ErrExists}
	}
	if m.blobs == nil {
		m.blobs = map[string]stored{}
	}
	m.blobs[key] = stored{data, time.Now()}
	return nil
}

// Get implements blob.Store.
func (m *Memory) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	s, err := m.find(ctx, "get", key)
	if err != nil {
		return nil, err
	}
	size := int64(len(s.data))
	if err := blob.CheckRange(off, n, size); err != nil {
		return nil, &blob.Error{Op: "get", Key: key, Err: err}
	}
	if n < 0 || n > size-off {
		n = size - off
	}
	return io.NopCloser(bytes.NewReader(s.data[off : off+n])), nil
}

// Stat implements blob.Store.
func (m *Memory) Stat(ctx context.Context, key string) (blob.Info, error) {
	s, err := m.find(ctx, "stat", key)
	return blob.Info{Key: key, Size: int64(len(s.data)), Modified: s.modified}, err
}

// List implements blob.Store.
func (m *Memory) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	err := blob.CheckPrefix(prefix)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, &blob.Error{Op: "list", Key: prefix, Err: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []blob.Info
	for key, s := range m.blobs {
		if strings.HasPrefix(key, prefix) && key > after {
			all = append(all, blob.Info{Key: key, Size: int64(len(s.data)), Modified: s.modified})
		}
	}
	slices.SortFunc(all, func(a, b blob.Info) int { return strings.Compare(a.Key, b.Key) })
	return all[:min(len(all), limit, blob.MaxPage)], nil
}

// Delete implements blob.Store.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return &blob.Error{Op: "delete", Key: key, Err: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.blobs, key)
	return nil
}

// Atomic implements blob.Atomic.
func (m *Memory) Atomic() bool { return true }

// Damage changes the bytes of a blob behind the contract's back, and reports
// whether it is there. A change to nil removes it.
func (m *Memory) Damage(key string, change func([]byte) []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.blobs[key]
	if !ok {
		return false
	}
	if s.data = change(bytes.Clone(s.data)); s.data == nil {
		delete(m.blobs, key)
		return true
	}
	m.blobs[key] = s
	return true
}

// Bytes is what all blobs below prefix hold, concatenated in the order of keys.
func (m *Memory) Bytes(prefix string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []string
	for key := range m.blobs {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var all []byte
	for _, key := range keys {
		all = append(all, m.blobs[key].data...)
	}
	return all
}

func (m *Memory) find(ctx context.Context, op, key string) (stored, error) {
	if err := ctx.Err(); err != nil {
		return stored{}, &blob.Error{Op: op, Key: key, Err: err}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.blobs[key]
	if !ok {
		return s, &blob.Error{Op: op, Key: key, Err: blob.ErrNotFound}
	}
	return s, nil
}
