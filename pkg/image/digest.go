package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
)

// chunkSize is the leaf of a disk's digest. A change here is a change of every digest.
const chunkSize = 4 << 20

// FileDigest hashes a file from its first to its last byte.
func FileDigest(ctx context.Context, path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("hash file: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, &ctxReader{ctx, f})
	if err != nil {
		return File{}, fmt.Errorf("hash %s: %w", path, err)
	}
	return File{Size: n, Digest: digestOf(h.Sum(nil))}, nil
}

// DiskDigest hashes a disk file in chunks of 4 MiB: SHA-256 over its size and, for every
// chunk that is not all zero, its number (64 bits, big endian) and the chunk's SHA-256.
// Holes are not read, and a sparse copy has the digest of a full one. It uses all cores.
func DiskDigest(ctx context.Context, path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("hash disk: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return File{}, fmt.Errorf("hash disk: %w", err)
	}
	size := st.Size()
	leaves, err := hashChunks(ctx, f, size)
	if err != nil {
		return File{}, fmt.Errorf("hash disk %s: %w", path, err)
	}
	h := sha256.New()
	fmt.Fprintf(h, "deskfork disk %d %d\n", chunkSize, size)
	for i, leaf := range leaves {
		if leaf != nil {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(i)))
			h.Write(leaf)
		}
	}
	return File{Size: size, Digest: digestOf(h.Sum(nil))}, nil
}

// hashChunks returns one sum a chunk, nil for chunks of zeros.
func hashChunks(ctx context.Context, f *os.File, size int64) ([][]byte, error) {
	leaves := make([][]byte, (size+chunkSize-1)/chunkSize)
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			buf := make([]byte, chunkSize)
			for i := w; i < len(leaves) && errs[w] == nil; i += workers {
				leaves[i], errs[w] = hashChunk(ctx, f, int64(i)*chunkSize, size, buf)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return leaves, nil
}

func hashChunk(ctx context.Context, f *os.File, off, size int64, buf []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	buf = buf[:min(chunkSize, size-off)]
	if isHole(f, off, int64(len(buf))) {
		return nil, nil
	}
	if n, err := f.ReadAt(buf, off); n != len(buf) {
		return nil, fmt.Errorf("read at %d: %w", off, err)
	}
	if allZero(buf) {
		return nil, nil
	}
	sum := sha256.Sum256(buf)
	return sum[:], nil
}

// allZero compares b with itself shifted by one byte, which runs at the speed of memory.
func allZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

// ctxReader ends a copy when its context ends.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
