package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/deskfork/deskfork/internal/x/atomicfile"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/sparse"
)

// smallPart is what is hashed again for each clone, in bytes.
const smallPart = 32 << 20

// Look describes a file as it is now, without its digest.
func (s *Store) Look(p Path) (Part, error) {
	info, err := os.Lstat(s.File(p))
	if err != nil {
		return Part{}, fmt.Errorf("look at %s: %w", p, err)
	}
	if !info.Mode().IsRegular() {
		return Part{}, fmt.Errorf("look at %s: not a file", p)
	}
	out := Part{Bytes: info.Size(), MTime: info.ModTime().UTC()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		out.Inode, out.ctime = st.Ino, time.Unix(st.Ctim.Unix())
	}
	return out, nil
}

// Seal fills in Parts from paths. With digest every file is synced and hashed,
// save those that an older snapshot's entry vouches for, and the snapshot gets
// its own digest.
func (s *Store) Seal(ctx context.Context, m *Meta, paths []Path, digest bool) error {
	m.Version = metaVersion
	m.Parts = make(map[Path]Part, len(paths))
	for _, p := range paths {
		part, err := s.Look(p)
		if err != nil {
			return err
		}
		m.Parts[p] = part
	}
	if !digest {
		return nil
	}
	known, err := s.vouched()
	if err != nil {
		return err
	}
	sums, errs := make([]string, len(paths)), make([]error, len(paths))
	var wg sync.WaitGroup
	for i, p := range paths {
		if old, ok := known[p]; ok && old.same(m.Parts[p]) {
			sums[i] = old.Digest
			continue
		}
		wg.Go(func() { sums[i], errs[i] = s.hash(ctx, p, true) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, p := range paths {
		part := m.Parts[p]
		part.Digest = sums[i]
		m.Parts[p] = part
	}
	if err := s.syncDirs(paths); err != nil {
		return err
	}
	m.Snapshot.Digest, err = m.digest()
	return err
}

// syncDirs makes the names of files survive a crash of the host.
func (s *Store) syncDirs(paths []Path) error {
	done := make(map[vm.SnapshotID]bool)
	for _, p := range paths {
		id, _ := p.Split()
		if done[id] {
			continue
		}
		done[id] = true
		if err := atomicfile.SyncDir(filepath.Join(s.dir, string(id))); err != nil {
			return err
		}
	}
	return nil
}

// vouched are the parts of all kept snapshots that were hashed.
func (s *Store) vouched() (map[Path]Part, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	known := make(map[Path]Part)
	for _, m := range all {
		for p, part := range m.Parts {
			if part.Digest != "" {
				known[p] = part
			}
		}
	}
	return known, nil
}

// digest is over what the snapshot says of itself and the digests of its parts;
// when and where it lies does not count.
func (m Meta) digest() (string, error) {
	said := m.Snapshot
	said.Digest = ""
	b, err := json.Marshal(struct {
		Snapshot          vm.Snapshot
		System, Workspace []Path
		Stream            bool
	}{said, m.System, m.Workspace, m.Stream})
	if err != nil {
		return "", fmt.Errorf("encode snapshot: %w", err)
	}
	h := sha256.New()
	h.Write(b)
	for _, p := range m.Needs() {
		fmt.Fprintf(h, "\n%s %s %d", p, m.Parts[p].Digest, m.Parts[p].Bytes)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Verify reports vm.ErrCorrupt when a file is not what it was. Small files that
// have a digest are hashed, others when they look touched; one that only looks so
// is let pass. What was hashed is not hashed again in the life of this process
// unless its inode has changed since, which writes to it cannot hide.
func (s *Store) Verify(ctx context.Context, m Meta) error {
	if m.Snapshot.Digest != "" {
		sum, err := m.digest()
		if err != nil {
			return err
		}
		if sum != m.Snapshot.Digest {
			return fmt.Errorf("snapshot %s: %w: its description was changed", m.Snapshot.ID, vm.ErrCorrupt)
		}
	}
	paths := slices.Collect(maps.Keys(m.Parts))
	errs := make([]error, len(paths))
	var wg sync.WaitGroup
	for i, p := range paths {
		wg.Go(func() { errs[i] = s.verify(ctx, p, m.Parts[p]) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("snapshot %s: %w", m.Snapshot.ID, err)
	}
	return nil
}

func (s *Store) verify(ctx context.Context, p Path, want Part) error {
	now, err := s.Look(p)
	if err != nil {
		return fmt.Errorf("%w: %w", vm.ErrCorrupt, err)
	}
	touched := !now.same(want)
	switch {
	case now.Bytes != want.Bytes:
		return fmt.Errorf("%w: %s has %d bytes, was sealed with %d", vm.ErrCorrupt, p, now.Bytes, want.Bytes)
	case touched && want.Digest == "":
		return fmt.Errorf("%w: %s was changed since it was sealed", vm.ErrCorrupt, p)
	case want.Digest == "" || !touched && want.Bytes > smallPart:
		return nil
	}
	if s.proven.has(p, want.Digest, now) {
		return nil
	}
	began := time.Now()
	sum, err := s.hash(ctx, p, false)
	if err != nil {
		return err
	}
	if sum == want.Digest {
		s.proven.add(p, sum, now, began)
	}
	if sum != want.Digest {
		return fmt.Errorf("%w: %s has digest %.12s…, was sealed with %.12s…", vm.ErrCorrupt, p, sum, want.Digest)
	}
	return nil
}

func (s *Store) hash(ctx context.Context, p Path, sync bool) (string, error) {
	f, err := os.Open(s.File(p))
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", p, err)
	}
	defer f.Close()
	if sync {
		if err := f.Sync(); err != nil {
			return "", fmt.Errorf("sync %s: %w", p, err)
		}
	}
	sum, err := sparse.Sum(ctx, f)
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", p, err)
	}
	return sum, nil
}
