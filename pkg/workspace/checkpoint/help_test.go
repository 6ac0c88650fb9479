package checkpoint_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
)

const block = workspace.Block

func ref(c workspace.CheckpointID) workspace.Ref { return workspace.Ref{Workspace: "w", Checkpoint: c} }

// disk is a disk and what has changed since it was last asked.
type disk struct {
	data    []byte
	changed []workspace.Extent
	rand    *rand.ChaCha8
}

func newDisk(blocks int, seed byte) *disk {
	return &disk{data: make([]byte, blocks*block), rand: rand.NewChaCha8([32]byte{seed})}
}

// write fills blocks with bytes that do not compress.
func (d *disk) write(start, count int) {
	_, _ = d.rand.Read(d.data[start*block : (start+count)*block])
	d.note(start, count)
}

func (d *disk) zero(start, count int) {
	clear(d.data[start*block : (start+count)*block])
	d.note(start, count)
}

func (d *disk) note(start, count int) {
	d.changed = append(d.changed, workspace.Extent{Offset: int64(start) * block, Length: int64(count) * block})
}

// request asks for a checkpoint of the disk as it is now.
func (d *disk) request(id workspace.CheckpointID, parent *workspace.Manifest) checkpoint.Request {
	r := checkpoint.Request{
		Ref: ref(id), Parent: parent, Source: bytes.NewReader(bytes.Clone(d.data)), Size: int64(len(d.data)),
		Changed: d.changed, Created: time.Unix(1_700_000_000, 5), Holder: "test",
	}
	d.changed = nil
	return r
}

func write(t *testing.T, s *checkpoint.Store, r checkpoint.Request) *workspace.Manifest {
	t.Helper()
	m, err := s.Write(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// restore gives the disk of a checkpoint, and fails the test when its holes are
// not holes in the file.
func restore(t *testing.T, s *checkpoint.Store, m *workspace.Manifest) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(m.Size); err != nil {
		t.Fatal(err)
	}
	if err := s.Restore(t.Context(), m, f); err != nil {
		t.Fatal(err)
	}
	if got, most := allocated(t, f), m.Checkpoint().Stats.Used+64<<10; got > most {
		t.Errorf("restored file takes %d bytes, at most %d are no holes", got, most)
	}
	data, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// meter counts what goes through a store.
type meter struct {
	workspace.Objects

	mu       sync.Mutex
	put, got int64
	now, top int // puts at once
}

func (m *meter) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	m.mu.Lock()
	m.put += size
	m.now++
	m.top = max(m.top, m.now)
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.now--
		m.mu.Unlock()
	}()
	return m.Objects.Put(ctx, key, body, size)
}

func (m *meter) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := m.Objects.Get(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(r)
	m.mu.Lock()
	m.got += int64(len(data))
	m.mu.Unlock()
	return io.NopCloser(bytes.NewReader(data)), err
}

func keysOf(t *testing.T, s blob.Store, prefix string) []string {
	t.Helper()
	var keys []string
	if err := workspace.All(t.Context(), s, prefix, func(b blob.Info) error {
		keys = append(keys, b.Key)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}
