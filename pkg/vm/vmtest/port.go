package vmtest

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"image"
	"io"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
)

var _ vm.Porter = (*Provider)(nil)

// parcel is what Export writes.
type parcel struct {
	Snapshot vm.Snapshot
	Spec     vm.Spec
	Screen   image.RGBA
	Blocks   blocks // of the workspace disk
	Bytes    int64
}

// Export implements vm.Porter.
func (p *Provider) Export(ctx context.Context, id vm.SnapshotID, w io.Writer) error {
	p.mu.Lock()
	s := p.snapshots[id]
	damaged := s != nil && s.damaged
	p.mu.Unlock()
	switch {
	case s == nil:
		return fmt.Errorf("export snapshot %s: %w", id, vm.ErrNotFound)
	case damaged:
		return fmt.Errorf("export snapshot %s: %w", id, vm.ErrCorrupt)
	}
	snap := s.Snapshot
	snap.Digest = digest(s.screen)
	if err := gob.NewEncoder(w).Encode(parcel{Snapshot: snap, Spec: s.spec, Screen: *s.screen, Blocks: s.disk.now, Bytes: s.disk.bytes}); err != nil {
		return fmt.Errorf("export snapshot %s: %w", id, err)
	}
	return ctx.Err()
}

// Import implements vm.Porter.
func (p *Provider) Import(ctx context.Context, id vm.SnapshotID, system vm.Disk, r io.Reader) (vm.Snapshot, error) {
	if err := id.Validate(); err != nil {
		return vm.Snapshot{}, err
	}
	var in parcel
	if err := gob.NewDecoder(r).Decode(&in); err != nil {
		return vm.Snapshot{}, fmt.Errorf("import snapshot: %w", errors.Join(vm.ErrCorrupt, err))
	}
	if got := digest(&in.Screen); got != in.Snapshot.Digest {
		return vm.Snapshot{}, fmt.Errorf("import snapshot: %w: digest is %.12s, want %.12s", vm.ErrCorrupt, got, in.Snapshot.Digest)
	}
	s := &sealed{Snapshot: in.Snapshot, spec: in.Spec, screen: &in.Screen, disk: &diskState{bytes: in.Bytes, now: in.Blocks, points: map[vm.SnapshotID]blocks{id: in.Blocks}}}
	s.ID, s.Template, s.Kept, s.Created = id, id, true, time.Now().UTC()
	s.spec.System.Base, s.spec.System.BaseFormat = system.Base, system.BaseFormat
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.snapshots[id] != nil:
		return vm.Snapshot{}, fmt.Errorf("import snapshot %s: %w", id, vm.ErrExists)
	case s.Host != p.class:
		return vm.Snapshot{}, fmt.Errorf("import snapshot: %w: sealed on %v, this is %v", vm.ErrHostClass, s.Host, p.class)
	}
	p.snapshots[id] = s
	return s.Snapshot, ctx.Err()
}
