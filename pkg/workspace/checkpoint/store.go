// Package checkpoint writes checkpoints of a disk, restores and verifies them.
package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/chunk"
)

// packSize is how many bytes of chunks go into a pack before it is stored:
// enough that requests do not count, little enough that a few fit in memory.
const packSize = 8 << 20

// holdFor is how long a hold lasts if nobody releases it: longer than any
// restore, or than a host waits for its publication.
const holdFor = 24 * time.Hour

// Store moves checkpoints between disks and objects. Several calls may run at
// once; each takes up to 20 MiB of memory for each worker.
type Store struct {
	Objects workspace.Objects
	// Key makes the hashes keyed. A checkpoint is read with the key with which
	// it was written.
	Key []byte
	// Workers is how many chunks are computed, and how many packs are on their
	// way, at once; 4.
	Workers int
	// Progress, when it is set, is told how many bytes more are done, of packs
	// stored or of the disk restored, from several goroutines.
	Progress func(bytes int64)

	packSize int // of tests

	once     sync.Once
	codec    *chunk.Codec
	codecErr error
}

// open makes the codec at the first call.
func (s *Store) open() (*chunk.Codec, error) {
	s.once.Do(func() { s.codec, s.codecErr = chunk.NewCodec(s.Key) })
	return s.codec, s.codecErr
}

// Request is one checkpoint to write.
type Request struct {
	// Ref is the new checkpoint. A write that was interrupted is resumed by the
	// same request: what is stored already is checked and used.
	workspace.Ref

	// Parent is the checkpoint that the disk began with; nil when there is
	// none, and then all of the disk is read.
	Parent *workspace.Manifest
	// Source is the disk at the instant of the checkpoint, Size its bytes. A
	// disk may have grown since its parent, not shrunk.
	Source io.ReaderAt
	Size   int64
	// Changed is all that may differ from the parent.
	Changed []workspace.Extent
	// Base, when there is one, is the disk as the parent has it. Changed is
	// compared with it, which pays when clusters are larger than a block.
	Base io.ReaderAt
	// Created is recorded in whole seconds.
	Created time.Time
	// Holder names the hold on the new checkpoint, which is the caller's to
	// release: when it is published, or given up.
	Holder string
}

// Write stores a checkpoint: its packs, then its manifest. When it returns
// without an error all of it is in the store and safe from sweeps while it is
// held, for 24 h, or published. A request that was done before gives the same
// manifest again.
//
// ErrCondemned, and ErrMissing of the parent's manifest, say that the parent was
// dropped: write without a parent. ErrEmpty: the disk has nothing but zeros.
func (s *Store) Write(ctx context.Context, req Request) (*workspace.Manifest, error) {
	m, err := s.write(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("write checkpoint %s: %w", req.Ref, err)
	}
	return m, nil
}

func (s *Store) write(ctx context.Context, req Request) (*workspace.Manifest, error) {
	codec, err := s.open()
	if err != nil {
		return nil, err
	}
	spans, err := check(req, codec.Keyed())
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(holdFor)
	// A writer that comes back after its holds have ended must not go on.
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := s.claim(ctx, req, until); err != nil {
		return nil, err
	}
	m, err := s.done(ctx, req)
	if errors.Is(err, workspace.ErrMissing) {
		m, err = s.create(ctx, req, codec, spans)
	}
	if err == nil {
		err = s.confirm(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// check gives the blocks to read.
func check(req Request, keyed bool) ([]chunk.Span, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if req.Size <= 0 || req.Size%workspace.Block != 0 {
		return nil, fmt.Errorf("%w: disk of %d bytes, not whole blocks", workspace.ErrInvalid, req.Size)
	}
	p := req.Parent
	switch {
	case p == nil: // nothing is taken to be zero without having been read
		return chunk.Spans([]workspace.Extent{{Length: req.Size}}, req.Size)
	case p.Size > req.Size:
		return nil, fmt.Errorf("%w: disk of %d bytes, its parent has %d", workspace.ErrInvalid, req.Size, p.Size)
	case p.Keyed != keyed:
		return nil, fmt.Errorf("%w: parent %s has keyed hashes: %v", workspace.ErrInvalid, p.Ref, p.Keyed)
	case p.Ref == req.Ref:
		return nil, fmt.Errorf("%w: a checkpoint is not its own parent", workspace.ErrInvalid)
	}
	return chunk.Spans(req.Changed, req.Size)
}

func (s *Store) claim(ctx context.Context, req Request, until time.Time) error {
	if err := workspace.Hold(ctx, s.Objects, req.Ref, req.Holder, until); err != nil {
		return err
	}
	if req.Parent != nil {
		if err := workspace.Hold(ctx, s.Objects, req.Parent.Ref, parentHolder(req), until); err != nil {
			return err
		}
	}
	return s.usable(ctx, req)
}

// confirm looks again, now that the manifest is there to be seen by sweeps, and
// lets the parent go: the manifest keeps what it needs of it.
func (s *Store) confirm(ctx context.Context, req Request) error {
	if err := s.usable(ctx, req); err != nil || req.Parent == nil {
		return err
	}
	return workspace.Release(ctx, s.Objects, req.Parent.Ref, parentHolder(req))
}

// parentHolder is for this request alone: the same holder may have written the
// parent, and not published it yet.
func parentHolder(req Request) string {
	sum := sha256.Sum256([]byte(req.String() + " " + req.Holder))
	return "parent-" + hex.EncodeToString(sum[:16])
}

func (s *Store) usable(ctx context.Context, req Request) error {
	if err := workspace.Condemned(ctx, s.Objects, req.Ref); err != nil || req.Parent == nil {
		return err
	}
	return workspace.Usable(ctx, s.Objects, req.Parent.Ref)
}

// done gives the manifest of a request that was finished before.
func (s *Store) done(ctx context.Context, req Request) (*workspace.Manifest, error) {
	m, err := workspace.Load(ctx, s.Objects, req.Ref)
	if err == nil && (m.Size != req.Size || m.Parent != parentRef(req)) {
		err = fmt.Errorf("%w: %s is there already, with parent %q and %d bytes", workspace.ErrInvalid, req.Ref, m.Parent, m.Size)
	}
	return m, err
}

func parentRef(req Request) workspace.Ref {
	if req.Parent == nil {
		return workspace.Ref{}
	}
	return req.Parent.Ref
}

func (s *Store) workers() int {
	if s.Workers > 0 {
		return s.Workers
	}
	return 4
}

func (s *Store) packBytes() int {
	if s.packSize > 0 {
		return s.packSize
	}
	return packSize
}

func (s *Store) progress(n int64) {
	if s.Progress != nil {
		s.Progress(n)
	}
}
