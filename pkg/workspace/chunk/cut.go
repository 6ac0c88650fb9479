// Package chunk cuts the changed parts of a disk into chunks, and puts the
// result over what the parent's manifest says. The sizes and their reasons are
// in docs/decisions: changes are seen in blocks of 4 KiB, and up to 256 changed
// blocks lie together in one chunk however far apart they are on the disk.
package chunk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/deskfork/deskfork/pkg/workspace"
)

// Max is how many blocks a chunk holds.
const Max = workspace.MaxChunk / workspace.Block

// Span is blocks side by side.
type Span struct{ Start, Count int64 }

// End is the block after the span.
func (s Span) End() int64 { return s.Start + s.Count }

// Piece is the content of a chunk before it is stored.
type Piece struct {
	Spans []Span // where its blocks lie on the disk, in the order of Data
	Data  []byte
}

// Cutter reads what has changed.
type Cutter struct {
	Source io.ReaderAt
	// Base, when it is not nil, reads the disk as the parent's checkpoint has
	// it; blocks that are the same there have not changed. It may end early:
	// zeros follow.
	Base io.ReaderAt
	// Emit gets the pieces in the order of the disk and keeps them.
	Emit func(Piece) error

	piece Piece
	holes []Span
	data  int64
}

// Cut reads the extents and emits the blocks in them that have changed. It
// returns those that are zero now, and how many bytes it emitted. What does not
// fill a chunk waits for the next Cut or for Flush.
func (c *Cutter) Cut(ctx context.Context, spans []Span) (holes []Span, emitted int64, err error) {
	c.holes, c.data = nil, 0
	var most int64
	for _, s := range spans {
		most = max(most, min(s.Count, Max))
	}
	buf, base := make([]byte, most*workspace.Block), make([]byte, most*workspace.Block)
	for _, s := range spans {
		for ; s.Count > 0; s = (Span{s.Start + Max, s.Count - Max}) {
			if err := ctx.Err(); err != nil {
				return nil, 0, err
			}
			n := min(s.Count, Max)
			if err := c.window(Span{s.Start, n}, buf[:n*workspace.Block], base[:n*workspace.Block]); err != nil {
				return nil, 0, err
			}
		}
	}
	return c.holes, c.data, nil
}

// Flush emits the chunk that is not full.
func (c *Cutter) Flush() error {
	p := c.piece
	c.piece = Piece{}
	if len(p.Data) == 0 {
		return nil
	}
	return c.Emit(p)
}

func (c *Cutter) window(s Span, buf, base []byte) error {
	if err := full(c.Source, buf, s.Start*workspace.Block); err != nil {
		return fmt.Errorf("read disk: %w", err)
	}
	if c.Base != nil {
		n, err := c.Base.ReadAt(base, s.Start*workspace.Block)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read disk of the parent: %w", err)
		}
		clear(base[n:])
	}
	for i := range s.Count {
		block := buf[i*workspace.Block : (i+1)*workspace.Block]
		switch {
		case c.Base != nil && bytes.Equal(block, base[i*workspace.Block:(i+1)*workspace.Block]):
		case bytes.Equal(block, zeros):
			c.holes = add(c.holes, s.Start+i)
		default:
			if err := c.block(s.Start+i, block); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cutter) block(at int64, block []byte) error {
	if c.piece.Data == nil {
		c.piece.Data = make([]byte, 0, workspace.MaxChunk)
	}
	c.piece.Data = append(c.piece.Data, block...)
	c.piece.Spans = add(c.piece.Spans, at)
	c.data += workspace.Block
	if len(c.piece.Data) == workspace.MaxChunk {
		return c.Flush()
	}
	return nil
}

var zeros = make([]byte, workspace.Block)

// full reads all of p; a source that ends early is an error.
func full(r io.ReaderAt, p []byte, off int64) error {
	n, err := r.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %d of %d bytes at %d", io.ErrUnexpectedEOF, n, len(p), off)
	}
	return err
}

func add(spans []Span, block int64) []Span {
	if last := len(spans) - 1; last >= 0 && spans[last].End() == block {
		spans[last].Count++
		return spans
	}
	return append(spans, Span{block, 1})
}

// Spans turns extents of bytes into blocks, sorted and without overlaps. An
// extent that leaves the disk is an error: it belongs to another one.
func Spans(extents []workspace.Extent, size int64) ([]Span, error) {
	spans := make([]Span, 0, len(extents))
	for _, e := range extents {
		if e.Offset < 0 || e.Length < 0 || e.Length > size-e.Offset {
			return nil, fmt.Errorf("%w: extent of %d bytes at %d, disk of %d", workspace.ErrInvalid, e.Length, e.Offset, size)
		}
		if e.Length > 0 {
			start := e.Offset / workspace.Block
			spans = append(spans, Span{start, (e.Offset+e.Length-1)/workspace.Block + 1 - start})
		}
	}
	return Union(spans), nil
}

// Union sorts spans and joins those that touch or overlap.
func Union(spans []Span) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return int(min(1, max(-1, a.Start-b.Start))) })
	var out []Span
	for _, s := range spans {
		last := len(out) - 1
		if last < 0 || out[last].End() < s.Start {
			out = append(out, s)
		} else if s.End() > out[last].End() {
			out[last].Count = s.End() - out[last].Start
		}
	}
	return out
}
