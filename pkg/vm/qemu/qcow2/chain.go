package qcow2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Chain is a disk made of files, the top one first. What none of them has is
// zero. It implements io.ReaderAt.
type Chain []*Image

// Validate is an error when the last file stands on one that is not there, or
// another one on nothing: then it is not the whole chain, or not one.
func (c Chain) Validate() error {
	if len(c) == 0 {
		return fmt.Errorf("%w: a chain of no files", ErrFormat)
	}
	for i, m := range c {
		if m.Backing() != (i < len(c)-1) {
			return fmt.Errorf("%w: file %d of %d from the top stands on another one: %t", ErrFormat, i+1, len(c), m.Backing())
		}
	}
	return nil
}

// Bytes is the size of the disk.
func (c Chain) Bytes() int64 { return c[0].Bytes() }

// ReadAt implements io.ReaderAt.
func (c Chain) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("read disk: negative offset")
	}
	done := 0
	for done < len(p) {
		if off >= c.Bytes() {
			return done, io.EOF
		}
		n, err := c.read(p[done:min(int64(len(p)), int64(done)+c.Bytes()-off)], off)
		if err != nil {
			return done, fmt.Errorf("read disk at %d: %w", off, err)
		}
		done, off = done+n, off+int64(n)
	}
	return done, nil
}

// read reads what lies in one place.
func (c Chain) read(p []byte, off int64) (int, error) {
	left := int64(len(p))
	for _, m := range c {
		k, place, n, err := m.find(off)
		if err != nil {
			return 0, err
		}
		left = min(left, n)
		switch k {
		case data:
			return int(left), fill(m.r, p[:left], place)
		case zero:
			clear(p[:left])
			return int(left), nil
		case absent:
		}
	}
	clear(p[:left])
	return int(left), nil
}

// fill reads from a file whose rest, as for QEMU, is zero.
func fill(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	if errors.Is(err, io.EOF) {
		clear(p[n:])
		return nil
	}
	return err
}

// maxExtents bounds what is remembered: a million holes are 16 MiB.
const maxExtents = 4 << 20

// Allocated lists what any of the files has, sorted and apart from each other.
func (c Chain) Allocated(ctx context.Context) ([]vm.Extent, error) {
	var all []vm.Extent
	for _, m := range c {
		own, err := m.allocated(ctx, maxExtents-len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, own...)
	}
	slices.SortFunc(all, func(a, b vm.Extent) int {
		switch {
		case a.Offset < b.Offset:
			return -1
		case a.Offset > b.Offset:
			return 1
		}
		return 0
	})
	return join(all), nil
}

func join(all []vm.Extent) []vm.Extent {
	out := all[:0]
	for _, e := range all {
		if n := len(out); n > 0 && e.Offset <= out[n-1].Offset+out[n-1].Length {
			out[n-1].Length = max(out[n-1].Length, e.Offset+e.Length-out[n-1].Offset)
			continue
		}
		out = append(out, e)
	}
	return out
}

// allocated lists what the file has, in the order of the disk.
func (m *Image) allocated(ctx context.Context, most int) ([]vm.Extent, error) {
	var out []vm.Extent
	for off := int64(0); off < m.bytes; {
		if off%(m.cluster()*m.perTable()) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		k, _, n, err := m.find(off)
		if err != nil {
			return nil, err
		}
		if k != absent {
			if last := len(out) - 1; last >= 0 && out[last].Offset+out[last].Length == off {
				out[last].Length += n
			} else if out = append(out, vm.Extent{Offset: off, Length: n}); len(out) > most {
				return nil, fmt.Errorf("%w: more than %d separate extents", ErrFormat, maxExtents)
			}
		}
		off += n
	}
	return out, nil
}

var _ io.ReaderAt = Chain(nil)
