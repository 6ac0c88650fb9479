package port

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/deskfork/deskfork/pkg/vm/qemu/disk"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
	"github.com/deskfork/deskfork/pkg/vm/qemu/sparse"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

// Export writes snapshot m, which the caller keeps from being collected. Scratch
// is an empty directory; it may need as much room as the snapshot.
//
//nolint:revive // each is another thing
func Export(ctx context.Context, tools disk.Tools, s *store.Store, m store.Meta, scratch string, w io.Writer) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderCRC(true), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return fmt.Errorf("export snapshot: %w", err)
	}
	x := exporter{ctx: ctx, tools: tools, store: s, meta: m, scratch: scratch, tar: tar.NewWriter(z), sums: make(map[string]string)}
	if err := errors.Join(x.all(), x.tar.Close(), z.Close()); err != nil {
		return fmt.Errorf("export snapshot %s: %w", m.Snapshot.ID, err)
	}
	return nil
}

type exporter struct {
	ctx     context.Context //nolint:containedctx // one call's
	tools   disk.Tools
	store   *store.Store
	meta    store.Meta
	scratch string
	tar     *tar.Writer
	sums    map[string]string
}

func (x *exporter) all() error {
	m := manifest{
		Version: version, Snapshot: x.meta.Snapshot,
		SystemBytes: x.meta.SystemBytes, WorkspaceBytes: x.meta.WorkspaceBytes, Stream: x.meta.Stream,
	}
	if err := x.text(manifestFile, m); err != nil {
		return err
	}
	for _, name := range m.entries() {
		if err := x.entry(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return x.text(sumsFile, x.sums)
}

func (x *exporter) text(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := x.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(b))}); err != nil {
		return err
	}
	_, err = x.tar.Write(b)
	if name == manifestFile {
		sum := sha256.Sum256(b)
		x.sums[name] = hex.EncodeToString(sum[:])
	}
	return err
}

func (x *exporter) entry(name string) error {
	path, err := x.source(name)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if name == store.RAM {
		err = x.memory(f, io.MultiWriter(x.tar, h))
	} else {
		err = x.plain(name, f, io.MultiWriter(x.tar, h))
	}
	x.sums[name] = hex.EncodeToString(h.Sum(nil))
	return err
}

// source is a file that holds all of an entry.
func (x *exporter) source(name string) (string, error) {
	own, scratch := x.store.File(x.meta.Own(name)), filepath.Join(x.scratch, name)
	switch {
	case name == store.RAM && x.meta.Has(store.Pages):
		return scratch, x.materialize(scratch)
	case name == store.System && (len(x.meta.System) > 1 || x.meta.Base.Path == ""):
		return scratch, x.tools.Flatten(x.ctx, own, x.meta.Base.Path, x.meta.Base.Format, scratch)
	case name == store.Workspace && len(x.meta.Workspace) > 1:
		return scratch, x.tools.Flatten(x.ctx, own, "", "", scratch)
	}
	return own, nil
}

func (x *exporter) materialize(path string) (err error) {
	f, err := pages.Open(x.store.File(x.meta.Own(store.Pages)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	base, err := os.Open(x.store.File(x.meta.Template()))
	if err != nil {
		return err
	}
	defer base.Close()
	return f.Materialize(x.ctx, base, path)
}

func (x *exporter) plain(name string, f *os.File, w io.Writer) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := x.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, info.Size())
	return err
}

// blockHeader is offset and length of a block, big-endian.
const blockHeader = 12

// memory writes the blocks; a first pass counts them, for tar wants to know.
func (x *exporter) memory(f *os.File, w io.Writer) error {
	var size int64
	err := sparse.Blocks(x.ctx, f, func(_ int64, b []byte) error {
		size += blockHeader + int64(len(b))
		return nil
	})
	if err != nil {
		return err
	}
	if err := x.tar.WriteHeader(&tar.Header{Name: store.RAM, Mode: 0o600, Size: size}); err != nil {
		return err
	}
	return sparse.Blocks(x.ctx, f, func(off int64, b []byte) error {
		h := binary.BigEndian.AppendUint64(make([]byte, 0, blockHeader), uint64(off))
		if _, err := w.Write(binary.BigEndian.AppendUint32(h, uint32(len(b)))); err != nil {
			return err
		}
		_, err := w.Write(b)
		return err
	})
}
