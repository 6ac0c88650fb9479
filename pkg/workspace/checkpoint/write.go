package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/chunk"
)

// create stores what is not there and puts the manifest last.
func (s *Store) create(ctx context.Context, req Request, codec *chunk.Codec, spans []chunk.Span) (*workspace.Manifest, error) {
	w := &writer{store: s, req: req, codec: codec, table: chunk.NewTable(req.Parent)}
	if err := w.run(ctx, spans); err != nil {
		return nil, err
	}
	m := &workspace.Manifest{
		Ref: req.Ref, Parent: parentRef(req), Size: req.Size, Keyed: codec.Keyed(),
		Created: req.Created.UTC().Truncate(time.Second),
	}
	w.table.Fill(m)
	if err := m.Validate(); err != nil {
		return nil, err
	}
	data := m.Encode()
	err := s.Objects.Put(ctx, workspace.ManifestKey(m.Ref), bytes.NewReader(data), int64(len(data)))
	if errors.Is(err, fs.ErrExist) { // our own, whose reply was lost, or that of the same request elsewhere
		return s.done(ctx, req)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// writer is the pipeline of one checkpoint: one goroutine reads the disk, some
// compute, one fills packs in the order of the disk, so that a resumed write
// makes the same packs, and some upload.
type writer struct {
	store *Store
	req   Request
	codec *chunk.Codec
	table *chunk.Table // the filler's, until run has ended

	work  chan *job
	order chan *job

	pack  []byte // being filled; its entry in the table is the last one
	packs int
	runs  []workspace.Run
	holes []chunk.Span // the reader's
}

// job is one chunk on its way.
type job struct {
	piece  chunk.Piece
	sum    workspace.Hash
	stored []byte
	done   chan struct{}
}

func (w *writer) run(ctx context.Context, spans []chunk.Span) error {
	n := w.store.workers()
	w.work, w.order = make(chan *job), make(chan *job, 2*n)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer close(w.work)
		defer close(w.order)
		return w.read(ctx, spans)
	})
	for range n {
		all.Go(func() error {
			for j := range w.work {
				j.sum, j.stored = w.codec.Sum(j.piece.Data), w.codec.Pack(j.piece.Data)
				close(j.done)
			}
			return nil
		})
	}
	all.Go(func() error {
		var uploads errgroup.Group
		uploads.SetLimit(n)
		err := w.fill(ctx, &uploads, cancel)
		return errors.Join(uploads.Wait(), err)
	})
	if err := all.Wait(); err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
			return cause
		}
		return err
	}
	w.table.Overlay(w.runs, w.holes)
	return nil
}

// read cuts what has changed, and then what is worth moving out of packs that
// are mostly garbage: at most half as much again.
func (w *writer) read(ctx context.Context, spans []chunk.Span) error {
	var changed []chunk.Span
	c := &chunk.Cutter{Source: w.req.Source, Base: w.req.Base, Emit: func(p chunk.Piece) error {
		changed = append(changed, p.Spans...)
		return w.emit(ctx, p)
	}}
	if w.req.Parent == nil {
		c.Base = nil
	}
	holes, data, err := c.Cut(ctx, spans)
	if err != nil {
		return err
	}
	w.holes = holes
	if err := c.Flush(); err != nil || w.req.Parent == nil {
		return err
	}
	rest := chunk.NewTable(w.req.Parent)
	rest.Overlay(nil, append(changed, holes...))
	c.Base = nil
	holes, _, err = c.Cut(ctx, rest.Sparse(data/workspace.Block/2))
	w.holes = append(w.holes, holes...)
	return errors.Join(err, c.Flush())
}

func (w *writer) emit(ctx context.Context, p chunk.Piece) error {
	j := &job{piece: p, done: make(chan struct{})}
	for _, to := range []chan *job{w.order, w.work} {
		select {
		case to <- j:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (w *writer) fill(ctx context.Context, uploads *errgroup.Group, fail context.CancelCauseFunc) error {
	for j := range w.order {
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		n, known := w.table.Find(j.sum)
		if !known {
			if len(w.pack)+len(j.stored) > w.store.packBytes() {
				w.flush(ctx, uploads, fail)
			}
			n = w.add(j)
		}
		w.runs = append(w.runs, chunk.Runs(j.piece.Spans, n)...)
	}
	w.flush(ctx, uploads, fail)
	return ctx.Err()
}

// add appends a chunk to the pack.
func (w *writer) add(j *job) int {
	if w.pack == nil {
		w.pack = make([]byte, 0, len(j.stored))
		w.table.Packs = append(w.table.Packs, workspace.Pack{})
	}
	at := int64(len(w.pack))
	w.pack = append(w.pack, j.stored...)
	return w.table.Add(workspace.Chunk{
		Sum: j.sum, Pack: len(w.table.Packs) - 1, Offset: at, Stored: int64(len(j.stored)),
		Blocks: int64(len(j.piece.Data)) / workspace.Block,
	})
}

// flush gives the pack its name and sends it off; it waits while others are on
// their way.
func (w *writer) flush(ctx context.Context, uploads *errgroup.Group, fail context.CancelCauseFunc) {
	data := w.pack
	if data == nil {
		return
	}
	w.pack = nil
	key := workspace.PackKey(w.req.Ref, w.packs, w.codec.Sum(data))
	w.packs++
	w.table.Packs[len(w.table.Packs)-1] = workspace.Pack{Key: key, Size: int64(len(data))}
	uploads.Go(func() error {
		err := w.store.putPack(ctx, key, data)
		if err != nil {
			fail(err)
		}
		return err
	})
}

// putPack stores a pack unless it is there from an earlier attempt. What is
// there is read, not believed.
func (s *Store) putPack(ctx context.Context, key string, data []byte) error {
	_, err := s.Objects.Stat(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		err = s.Objects.Put(ctx, key, bytes.NewReader(data), int64(len(data)))
		if err == nil {
			s.progress(int64(len(data)))
			return nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	body, err := s.Objects.Get(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer body.Close()
	got, err := io.ReadAll(io.LimitReader(body, int64(len(data))+1))
	if err != nil {
		return fmt.Errorf("read back %s: %w", key, err)
	}
	if !bytes.Equal(got, data) {
		return &workspace.DamageError{Key: key, What: "an earlier attempt left other bytes; write under another name", Err: workspace.ErrCorrupt}
	}
	s.progress(int64(len(data)))
	return nil
}
