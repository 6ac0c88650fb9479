package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Materialize makes the file that the whole region would be: base, or zeros when
// it is nil, with the pages of f over it. The file is new, sparse, of mode 0600
// and as large as the region; it is not synced. Where file systems can, it shares
// blocks with base. When it fails there is no file; vm.ErrNoSpace on a full disk.
func (f *File) Materialize(ctx context.Context, base *os.File, path string) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if err := f.readable(); err != nil {
		return err
	}
	dst, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("make memory file: %w", noSpace(err))
	}
	err = f.lay(ctx, base, dst)
	if err == nil {
		err = f.over(ctx, dst)
	}
	if err = errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("make memory file: %w", errors.Join(noSpace(err), os.Remove(path)))
	}
	return nil
}

// lay makes dst what of base shows under the pages of f.
func (f *File) lay(ctx context.Context, base, dst *os.File) error {
	if base == nil {
		return dst.Truncate(f.region)
	}
	st, err := base.Stat()
	if err != nil {
		return err
	}
	if st.Size() > f.region {
		return fmt.Errorf("base has %d bytes, the region %d", st.Size(), f.region)
	}
	cloned := unix.IoctlFileClone(int(dst.Fd()), int(base.Fd())) == nil
	if err := dst.Truncate(f.region); err != nil {
		return err
	}
	if !cloned {
		return f.copyBase(ctx, base, dst)
	}
	for _, z := range f.zeros {
		if err := unix.Fallocate(int(dst.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, z.Off, z.Len); err != nil {
			return err
		}
	}
	return nil
}

// copyBase leaves out what is zero in base or will be written over.
func (f *File) copyBase(ctx context.Context, base, dst *os.File) error {
	data, err := dataOf(base)
	if err != nil {
		return err
	}
	runs := make([]Run, len(f.pieces))
	for i, p := range f.pieces {
		runs[i] = p.Run
	}
	todo := batches(dense(subtract(widen(data), merge(runs, f.zeros))))
	return parallel(ctx, len(todo), func() func(int) error {
		buf := make([]byte, batchBytes)
		return func(i int) error {
			for _, p := range todo[i] {
				n, err := base.ReadAt(buf[:p.Len], p.Off)
				if err != nil && !errors.Is(err, io.EOF) { // base may end within a page
					return err
				}
				if err := writeSparse(dst, buf[:n], p.Off); err != nil {
					return err
				}
			}
			return nil
		}
	})
}

// writeSparse writes b, leaving out pages of zeros.
func writeSparse(dst *os.File, b []byte, at int64) error {
	page := int(pageSize())
	for len(b) > 0 {
		n := 0
		for n < len(b) && !isZero(b[n:min(n+page, len(b))]) {
			n += page
		}
		n = min(n, len(b))
		if _, err := dst.WriteAt(b[:n], at); err != nil {
			return err
		}
		skip := min(n+page, len(b)) // the page that ended the loop is zero
		b, at = b[skip:], at+int64(skip)
	}
	return nil
}

func isZero(b []byte) bool { return bytes.Equal(b, zeroBlock[:len(b)]) }

// over writes the data of f.
func (f *File) over(ctx context.Context, dst *os.File) error {
	todo := batches(f.pieces)
	return parallel(ctx, len(todo), func() func(int) error {
		return func(i int) error {
			for _, p := range todo[i] {
				if _, err := dst.WriteAt(f.data(p.at, p.Len), p.Off); err != nil {
					return err
				}
			}
			return nil
		}
	})
}
