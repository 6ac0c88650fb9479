package retain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/checkpoint"
	"github.com/deskfork/deskfork/pkg/workspace/retain"
)

const blocks = 24

// world is a store, a database of publications and the disks that they have.
type world struct {
	store blobtest.Memory
	// faithless forgets holds on parents, so that tombs alone protect them.
	faithless bool
	// behind is how much the clock of writers is wrong.
	behind time.Duration

	mu        sync.Mutex
	published map[workspace.Ref]bool
	pinned    map[workspace.Ref]bool
	disks     map[workspace.Ref][]byte
	number    int
	rand      *rand.Rand
}

func newWorld(seed uint64) *world {
	return &world{
		published: map[workspace.Ref]bool{}, pinned: map[workspace.Ref]bool{}, disks: map[workspace.Ref][]byte{},
		rand: rand.New(rand.NewPCG(seed, 7)),
	}
}

func (w *world) Roots(context.Context) (published, pinned map[workspace.Ref]bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.published), maps.Clone(w.pinned), nil
}

// below is the store as a writer has it.
func (w *world) below(s blob.Store) workspace.Objects {
	if w.faithless {
		return faithless{s}
	}
	return s
}

type faithless struct{ blob.Store }

func (f faithless) Put(ctx context.Context, key string, body io.ReaderAt, size int64) error {
	if strings.HasPrefix(key, workspace.HoldPrefix) && strings.Contains(key, "/parent-") {
		return nil
	}
	return f.Store.Put(ctx, key, body, size)
}

// next gives the request for a child of parent with some blocks changed.
func (w *world) next(parent *workspace.Manifest) (checkpoint.Request, []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	id := workspace.Ref{Workspace: "w", Checkpoint: workspace.CheckpointID(fmt.Sprintf("c%03d", w.number))}
	disk, changed := make([]byte, blocks*workspace.Block), []workspace.Extent{{Length: blocks * workspace.Block}}
	if parent != nil {
		copy(disk, w.disks[parent.Ref])
		changed = nil
	}
	for range 1 + w.rand.IntN(6) {
		at := w.rand.Int64N(blocks) * workspace.Block
		for i := at; i < at+workspace.Block; i += 8 {
			disk[i], disk[i+1] = byte(w.rand.Uint32()), byte(w.number)
		}
		changed = append(changed, workspace.Extent{Offset: at, Length: workspace.Block})
	}
	return checkpoint.Request{
		Ref: id, Parent: parent, Source: bytes.NewReader(disk), Size: int64(len(disk)), Changed: changed,
		Created: time.Now().Add(-w.behind), Holder: "writer",
	}, disk
}

// publish writes a checkpoint through s and publishes it, as a host does.
func (w *world) publish(ctx context.Context, s blob.Store, parent *workspace.Manifest) (*workspace.Manifest, error) {
	req, disk := w.next(parent)
	m, err := (&checkpoint.Store{Objects: w.below(s)}).Write(ctx, req)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.published[m.Ref], w.disks[m.Ref] = true, disk
	w.mu.Unlock()
	return m, workspace.Release(ctx, s, m.Ref, "writer")
}

func (w *world) sweeper(s blob.Store, p retain.Policy) *retain.Sweeper {
	return &retain.Sweeper{Objects: s, Roots: w, Policy: p, Grace: time.Hour}
}

// check restores everything that is to be kept.
func (w *world) check(t *testing.T, refs ...workspace.Ref) {
	t.Helper()
	for _, r := range refs {
		m, err := workspace.Load(t.Context(), &w.store, r)
		if err != nil {
			t.Errorf("%s: %v", r, err)
			continue
		}
		disk := target(make([]byte, m.Size))
		if err := (&checkpoint.Store{Objects: &w.store}).Restore(t.Context(), m, disk); err != nil {
			t.Errorf("%s: %v", r, err)
		} else if !bytes.Equal(disk, w.disks[r]) {
			t.Errorf("%s: other bytes", r)
		}
	}
}

type target []byte

func (d target) WriteAt(p []byte, off int64) (int, error) { return copy(d[off:], p), nil }

func (w *world) keys(t *testing.T, prefix string) (keys []string) {
	t.Helper()
	if err := workspace.All(t.Context(), &w.store, prefix, func(b blob.Info) error {
		keys = append(keys, b.Key)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}

// refused: a write may fail because of a sweep, and then says so.
func refused(err error) bool {
	return errors.Is(err, workspace.ErrCondemned) || errors.Is(err, workspace.ErrMissing)
}
