package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/chunk"
)

// gap is how many bytes of garbage in a pack are read over rather than begun
// behind anew.
const gap = 256 << 10

// Restore writes the blocks of a checkpoint to target, which reads as zeros and
// is m.Size bytes long: a new sparse file. Blocks that are holes are not
// written. Every byte is compared with its hash before it is written; an error
// means that target must not be used. A DamageError names the object at fault.
// Sweeps spare the checkpoint while it is read.
func (s *Store) Restore(ctx context.Context, m *workspace.Manifest, target io.WriterAt) error {
	r, err := s.reader(m)
	if err != nil {
		return fmt.Errorf("restore checkpoint %s: %w", m.Ref, err)
	}
	r.write = func(c int, data []byte) error {
		for _, run := range r.runs[c] {
			if _, err := target.WriteAt(data[run.From*workspace.Block:(run.From+run.Count)*workspace.Block], run.Start*workspace.Block); err != nil {
				return fmt.Errorf("write disk: %w", err)
			}
			s.progress(run.Count * workspace.Block)
		}
		return nil
	}
	if err := r.held(ctx); err != nil {
		return fmt.Errorf("restore checkpoint %s: %w", m.Ref, err)
	}
	return nil
}

// Verify reads all of a checkpoint again and returns everything that is missing
// or damaged. The error is about the look itself: what could not be read is not
// said to be damaged.
func (s *Store) Verify(ctx context.Context, m *workspace.Manifest) ([]*workspace.DamageError, error) {
	r, err := s.reader(m)
	if err != nil {
		return nil, fmt.Errorf("verify checkpoint %s: %w", m.Ref, err)
	}
	var mu sync.Mutex
	var found []*workspace.DamageError
	r.write = func(int, []byte) error { return nil }
	r.damaged = func(d *workspace.DamageError) error {
		mu.Lock()
		defer mu.Unlock()
		found = append(found, d)
		return nil
	}
	if err := r.held(ctx); err != nil {
		return found, fmt.Errorf("verify checkpoint %s: %w", m.Ref, err)
	}
	return found, nil
}

// reader gets the chunks of one checkpoint.
type reader struct {
	store *Store
	codec *chunk.Codec
	m     *workspace.Manifest
	runs  [][]workspace.Run // of each chunk
	write func(chunk int, data []byte) error
	// damaged decides whether to go on.
	damaged func(*workspace.DamageError) error
}

func (s *Store) reader(m *workspace.Manifest) (*reader, error) {
	codec, err := s.open()
	if err != nil {
		return nil, err
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if m.Keyed != codec.Keyed() {
		return nil, fmt.Errorf("%w: its hashes are keyed: %v", workspace.ErrInvalid, m.Keyed)
	}
	r := &reader{store: s, codec: codec, m: m, runs: make([][]workspace.Run, len(m.Chunks))}
	r.damaged = func(d *workspace.DamageError) error { return d }
	for _, run := range m.Runs {
		r.runs[run.Chunk] = append(r.runs[run.Chunk], run)
	}
	return r, nil
}

// held reads everything while m is held.
// A hold that cannot be released ends by itself.
func (r *reader) held(ctx context.Context) error {
	holder := "reader-" + strings.ToLower(rand.Text())
	until := time.Now().Add(holdFor)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if err := workspace.Hold(ctx, r.store.Objects, r.m.Ref, holder, until); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_ = workspace.Release(ctx, r.store.Objects, r.m.Ref, holder)
	}()
	return r.packs(ctx)
}

func (r *reader) packs(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(r.store.workers())
	for from, to := 0, 0; from < len(r.m.Chunks); from = to {
		for to < len(r.m.Chunks) && r.m.Chunks[to].Pack == r.m.Chunks[from].Pack {
			to++
		}
		all.Go(func() error { return r.pack(ctx, from, to) })
	}
	return all.Wait()
}

// pack reads the chunks from..to, which lie in one pack, with as few requests as
// their gaps allow.
func (r *reader) pack(ctx context.Context, from, to int) error {
	end := func(i int) int64 { return r.m.Chunks[i].Offset + r.m.Chunks[i].Stored }
	for from < to {
		next := from + 1
		for next < to && r.m.Chunks[next].Offset-end(next-1) <= gap {
			next++
		}
		err := r.span(ctx, from, next)
		if d, ok := errors.AsType[*workspace.DamageError](err); ok {
			err = r.damaged(d)
		}
		if err != nil {
			return err
		}
		from = next
	}
	return ctx.Err()
}

func (r *reader) span(ctx context.Context, from, to int) error {
	first, last := r.m.Chunks[from], r.m.Chunks[to-1]
	key := r.m.Packs[first.Pack].Key
	body, err := r.store.Objects.Get(ctx, key, first.Offset, last.Offset+last.Stored-first.Offset)
	if err != nil {
		return r.unread(ctx, first.Pack, err)
	}
	defer body.Close()
	buf, at := make([]byte, 0, workspace.MaxChunk), first.Offset
	for i := from; i < to; i++ {
		c := r.m.Chunks[i]
		if _, err := io.CopyN(io.Discard, body, c.Offset-at); err != nil {
			return r.unread(ctx, c.Pack, err)
		}
		buf = append(buf[:0], make([]byte, c.Stored)...)
		if _, err := io.ReadFull(body, buf); err != nil {
			return r.unread(ctx, c.Pack, err)
		}
		at = c.Offset + c.Stored
		data, err := r.codec.Open(buf, c)
		if err != nil {
			d := &workspace.DamageError{Key: key, What: fmt.Sprintf("chunk %s at %d: %v", c.Sum, c.Offset, err), Err: workspace.ErrCorrupt}
			if err := r.damaged(d); err != nil {
				return err
			}
			continue
		}
		if err := r.write(i, data); err != nil {
			return err
		}
	}
	return nil
}

// unread tells a pack that is not what it was from a store in trouble.
func (r *reader) unread(ctx context.Context, pack int, err error) error {
	if _, ok := errors.AsType[*workspace.DamageError](err); ok {
		return err
	}
	p := r.m.Packs[pack]
	info, statErr := r.store.Objects.Stat(ctx, p.Key)
	switch {
	case errors.Is(statErr, fs.ErrNotExist):
		return &workspace.DamageError{Key: p.Key, Err: workspace.ErrMissing}
	case statErr == nil && info.Size != p.Size:
		return &workspace.DamageError{Key: p.Key, What: fmt.Sprintf("%d bytes, want %d", info.Size, p.Size), Err: workspace.ErrCorrupt}
	}
	return fmt.Errorf("read %s: %w", p.Key, err)
}
