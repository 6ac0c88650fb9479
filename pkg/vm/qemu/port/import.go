package port

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
	"github.com/deskfork/deskfork/pkg/vm/qemu/sparse"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

// maxWindow bounds what decompression may take of memory, in bytes.
const maxWindow = 64 << 20

// Import reads what Export wrote into the store as a kept snapshot and a
// template of its own. system is the image's disk. take makes a disk readable to
// QEMU's user. vm.ErrCorrupt for a stream that is not whole or not what it was.
//
//nolint:revive // each is another thing
func Import(ctx context.Context, tools disk.Tools, s *store.Store, id vm.SnapshotID, system store.Base, take func(string) error, r io.Reader) (vm.Snapshot, error) {
	if err := s.Begin(id); err != nil {
		return vm.Snapshot{}, err
	}
	defer s.End(id)
	x := importer{ctx: ctx, store: s, id: id, sums: make(map[string]string)}
	meta, err := x.all(r)
	if err == nil {
		err = x.disks(tools, &meta, system, take)
	}
	if err == nil {
		err = x.commit(&meta)
	}
	if err != nil {
		return vm.Snapshot{}, errors.Join(fmt.Errorf("import snapshot %s: %w", id, err), os.RemoveAll(x.file("")))
	}
	return meta.Snapshot, nil
}

type importer struct {
	ctx   context.Context //nolint:containedctx // one call's
	store *store.Store
	id    vm.SnapshotID
	tar   *tar.Reader
	sums  map[string]string
}

func (x *importer) file(name string) string {
	return x.store.File(store.At(x.id, name))
}

// corrupt marks what a bad stream may have caused: all but a full disk, an end
// of ctx and other troubles of this host.
func (x *importer) corrupt(err error) error {
	var path *os.PathError
	switch {
	case err == nil:
		return nil
	case x.ctx.Err() != nil:
		return x.ctx.Err()
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", vm.ErrNoSpace, err)
	case errors.As(err, &path):
		return err
	}
	return fmt.Errorf("%w: %w", vm.ErrCorrupt, err)
}

func (x *importer) all(r io.Reader) (store.Meta, error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return store.Meta{}, x.corrupt(err)
	}
	defer z.Close()
	x.tar = tar.NewReader(z)
	b, err := x.text(manifestFile)
	if err != nil {
		return store.Meta{}, x.corrupt(err)
	}
	m, err := parseManifest(b)
	if err != nil {
		return store.Meta{}, x.corrupt(err)
	}
	for _, name := range m.entries() {
		if err := x.entry(name, m); err != nil {
			return store.Meta{}, x.corrupt(fmt.Errorf("%s: %w", name, err))
		}
	}
	if err := x.verify(m); err != nil {
		return store.Meta{}, x.corrupt(err)
	}
	snap := m.Snapshot
	snap.ID, snap.Template, snap.Kept, snap.Created = x.id, x.id, true, snap.Created.UTC().Truncate(time.Microsecond)
	return store.Meta{Snapshot: snap, SystemBytes: m.SystemBytes, WorkspaceBytes: m.WorkspaceBytes, Stream: m.Stream}, nil
}

// next wants the entry with this name.
func (x *importer) next(name string) (*tar.Header, error) {
	h, err := x.tar.Next()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, fmt.Errorf("look for %s: %w", name, err)
	}
	if h.Name != name || h.Typeflag != tar.TypeReg {
		return nil, fmt.Errorf("entry %.80q where %s should be", h.Name, name)
	}
	return h, nil
}

func (x *importer) text(name string) ([]byte, error) {
	h, err := x.next(name)
	if err != nil {
		return nil, err
	}
	if h.Size > maxText {
		return nil, fmt.Errorf("%s has %d bytes", name, h.Size)
	}
	b, err := io.ReadAll(x.tar)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	sum := sha256.Sum256(b)
	x.sums[name] = hex.EncodeToString(sum[:])
	return b, nil
}

func (x *importer) entry(name string, m manifest) (err error) {
	h, err := x.next(name)
	if err != nil {
		return err
	}
	if most := m.most(name); h.Size > most {
		return fmt.Errorf("%d bytes, at most %d make sense", h.Size, most)
	}
	f, err := os.OpenFile(x.file(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	sum := sha256.New()
	in := io.TeeReader(io.LimitReader(x.tar, h.Size), sum)
	if name == store.RAM {
		err = x.memory(f, in, int64(m.Snapshot.Shape.MemoryMiB)<<20)
	} else {
		_, err = io.Copy(f, contextReader{x.ctx, in})
	}
	x.sums[name] = hex.EncodeToString(sum.Sum(nil))
	return err
}

// memory puts blocks in their places; they come in order and do not overlap.
func (x *importer) memory(f *os.File, r io.Reader, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	head, buf := make([]byte, blockHeader), make([]byte, sparse.Block)
	for end := int64(0); ; {
		if err := x.ctx.Err(); err != nil {
			return err
		}
		if _, err := io.ReadFull(r, head); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		off, n := int64(binary.BigEndian.Uint64(head)), int64(binary.BigEndian.Uint32(head[8:]))
		if off < end || n <= 0 || n > sparse.Block || off > size-n {
			return fmt.Errorf("block of %d bytes at %d of a memory of %d", n, off, size)
		}
		if _, err := io.ReadFull(r, buf[:n]); err != nil {
			return err
		}
		if _, err := f.WriteAt(buf[:n], off); err != nil {
			return err
		}
		end = off + n
	}
}

// verify compares the sums, and wants the stream to end there.
func (x *importer) verify(m manifest) error {
	got := x.sums
	x.sums = make(map[string]string)
	b, err := x.text(sumsFile)
	if err != nil {
		return err
	}
	names := append([]string{manifestFile}, m.entries()...)
	want, err := parseSums(b, names)
	if err != nil {
		return err
	}
	for _, n := range names {
		if got[n] != want[n] {
			return fmt.Errorf("%s has sum %.12s…, was written with %.12s…", n, got[n], want[n])
		}
	}
	if _, err := x.tar.Next(); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("more after the end"), err)
	}
	return nil
}

// disks checks the disks' headers before QEMU sees them and puts the system disk
// over this host's image.
func (x *importer) disks(tools disk.Tools, m *store.Meta, system store.Base, take func(string) error) error {
	for name, size := range map[string]int64{store.System: m.SystemBytes, store.Workspace: m.WorkspaceBytes} {
		h, err := disk.Inspect(x.file(name))
		if err != nil {
			return fmt.Errorf("%w: %w", vm.ErrCorrupt, err)
		}
		if h.Bytes != size || name == store.Workspace && h.Backing {
			return fmt.Errorf("%w: %s is of %d bytes, want %d; over another file: %t", vm.ErrCorrupt, name, h.Bytes, size, h.Backing)
		}
	}
	if system.Path != "" {
		abs, err := filepath.Abs(system.Path)
		if err != nil {
			return err
		}
		system.Path = abs
		if err := tools.Rebase(x.ctx, x.file(store.System), system.Path, system.Format); err != nil {
			return err
		}
	}
	m.Base = system
	if dir := filepath.Dir(system.Path); m.Boot.Kernel != "" { // both lie beside the disk
		m.Boot.Kernel = filepath.Join(dir, filepath.Base(m.Boot.Kernel))
		if m.Boot.Initrd != "" {
			m.Boot.Initrd = filepath.Join(dir, filepath.Base(m.Boot.Initrd))
		}
	}
	return errors.Join(take(x.file(store.System)), take(x.file(store.Workspace)))
}

func (x *importer) commit(m *store.Meta) error {
	m.System, m.Workspace = []store.Path{m.Own(store.System)}, []store.Path{m.Own(store.Workspace)}
	parts := []store.Path{m.Own(store.State), m.Own(store.System), m.Own(store.Workspace)}
	if !m.Stream {
		parts = append(parts, m.Own(store.VRAM), m.Own(store.RAM))
	}
	if err := x.store.Seal(x.ctx, m, parts, true); err != nil {
		return err
	}
	return x.store.Commit(*m)
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context //nolint:containedctx // one call's
	r   io.Reader
}

func (c contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
