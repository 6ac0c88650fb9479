package vmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"

	"github.com/deskfork/deskfork/pkg/vm"
)

// diskBlock is the unit of a fake disk's changes in bytes.
const diskBlock = 4096

// blocks are those of a disk that were written, by number. None of them changes.
type blocks map[int64]*[diskBlock]byte

// diskState is a workspace disk as it is now and as it was at points.
type diskState struct {
	bytes int64

	mu     sync.Mutex
	now    blocks                   // guarded by mu
	points map[vm.SnapshotID]blocks // guarded by mu
}

func newDisk(d vm.Disk) (*diskState, error) {
	s := &diskState{bytes: d.SizeMiB << 20, now: blocks{}, points: map[vm.SnapshotID]blocks{}}
	if d.Source == "" {
		if d.Label != "" { // as where a file system has its name
			s.write([]byte(d.Label), 1024+120)
		}
		return s, nil
	}
	f, err := os.Open(d.Source)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, diskBlock)
	for off := int64(0); ; off += diskBlock {
		n, err := io.ReadFull(f, b)
		if n > 0 && slices.ContainsFunc(b[:n], func(c byte) bool { return c != 0 }) {
			s.write(b[:n], off)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return s, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *diskState) write(p []byte, off int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		next := new([diskBlock]byte)
		if old := s.now[off/diskBlock]; old != nil {
			*next = *old
		}
		n := copy(next[off%diskBlock:], p)
		s.now[off/diskBlock] = next
		p, off = p[n:], off+int64(n)
	}
}

// mark names the present state.
func (s *diskState) mark(id vm.SnapshotID) (blocks, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.points[id] != nil {
		return nil, fmt.Errorf("point %s: %w", id, vm.ErrExists)
	}
	s.points[id] = maps.Clone(s.now)
	return s.points[id], nil
}

// clone is the disk of a machine that goes on from here.
func (s *diskState) clone() *diskState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &diskState{bytes: s.bytes, now: maps.Clone(s.now), points: maps.Clone(s.points)}
}

// reader reads blocks that do not change any more.
type reader struct {
	blocks blocks
	bytes  int64
}

// ReadAt implements io.ReaderAt.
func (r reader) ReadAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		if off >= r.bytes {
			return done, io.EOF
		}
		n := min(len(p)-done, int(diskBlock-off%diskBlock), int(r.bytes-off))
		clear(p[done : done+n])
		if b := r.blocks[off/diskBlock]; b != nil {
			copy(p[done:done+n], b[off%diskBlock:])
		}
		done, off = done+n, off+int64(n)
	}
	return done, nil
}

// WriteWorkspace changes the workspace disk as a guest does. It panics behind the
// disk's end.
func (m *Machine) WriteWorkspace(p []byte, off int64) {
	if off < 0 || off+int64(len(p)) > m.disk.bytes {
		panic("vmtest: write behind the end of the workspace disk") //nolint:forbidigo // a fault of the test
	}
	m.disk.write(p, off)
}

// ReadWorkspace reads the workspace disk as it is now.
func (m *Machine) ReadWorkspace(p []byte, off int64) {
	d := m.disk.clone()
	_, _ = reader{d.now, d.bytes}.ReadAt(p, off) // what lies behind the end stays as it is
}

// Flatten forgets all points, as a provider does that merges overlays.
func (m *Machine) Flatten() {
	m.disk.mu.Lock()
	defer m.disk.mu.Unlock()
	clear(m.disk.points)
}

// View implements vm.Viewer.
func (p *Provider) View(ctx context.Context, machine vm.Machine, spec vm.ViewSpec) (*vm.View, error) {
	fail := func(err error) (*vm.View, error) { return nil, &vm.StageError{Stage: "view", Err: err} }
	w, ok := machine.(wrapped)
	if !ok || w.Fake().p != p {
		return fail(fmt.Errorf("%w: a machine of another provider", vm.ErrInvalid))
	}
	m := w.Fake()
	if err := errors.Join(spec.Point.Validate(), ctx.Err()); err != nil {
		return fail(err)
	}
	if m.ended() {
		return fail(vm.ErrGone)
	}
	m.disk.mu.Lock()
	since := m.disk.points[spec.Since]
	m.disk.mu.Unlock()
	now, err := m.disk.mark(spec.Point)
	if err != nil {
		return fail(err)
	}
	v := &vm.View{
		Disk: reader{now, m.disk.bytes}, Bytes: m.disk.bytes, Changed: []vm.Extent{{Length: m.disk.bytes}},
		Close: func() error { return nil },
	}
	if since == nil {
		v.Full = fmt.Sprintf("point %q is not known", spec.Since)
		return v, nil
	}
	v.Base, v.Changed = reader{since, m.disk.bytes}, nil
	for _, n := range slices.Sorted(maps.Keys(now)) {
		if now[n] != since[n] {
			v.Changed = append(v.Changed, vm.Extent{Offset: n * diskBlock, Length: diskBlock})
		}
	}
	return v, nil
}

var _ vm.Viewer = (*Provider)(nil)
