// Package sparse reads files with holes without reading the holes.
package sparse

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Block is the unit in bytes in which a file is either zero or not.
const Block = 64 << 10

// Blocks calls fn for each block that holds anything but zeros, in order; the
// last may be short. Where the file has holes makes no difference. b is valid
// during the call.
func Blocks(ctx context.Context, f *os.File, fn func(off int64, b []byte) error) error {
	buf, zeros := make([]byte, Block), make([]byte, Block)
	fd := int(f.Fd())
	for next := int64(0); ; {
		start, err := unix.Seek(fd, next, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("seek data in %s: %w", f.Name(), err)
		}
		end, err := unix.Seek(fd, start, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("seek hole in %s: %w", f.Name(), err)
		}
		for next = max(next, start/Block*Block); next < end; next += Block {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := f.ReadAt(buf, next)
			if err != nil && !errors.Is(err, io.EOF) {
				return fmt.Errorf("read %s: %w", f.Name(), err)
			}
			if n == 0 || bytes.Equal(buf[:n], zeros[:n]) {
				continue
			}
			if err := fn(next, buf[:n]); err != nil {
				return err
			}
		}
	}
}

// Sum is a SHA-256 in hex over the length of f and its blocks that are not zero,
// each with its place.
func Sum(ctx context.Context, f *os.File) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d\n", info.Size())
	err = Blocks(ctx, f, func(off int64, b []byte) error {
		fmt.Fprintf(h, "%d+%d\n", off, len(b))
		h.Write(b)
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
