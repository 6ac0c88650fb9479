// Package tail reads the end of a growing text file, and follows it.
package tail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

const (
	chunk = 64 << 10
	// pollEvery is how often a followed file is looked at. The files belong to
	// other processes, on any file system: asking is what always works.
	pollEvery = 200 * time.Millisecond
)

// Bytes returns at most the last n bytes of a file, beginning at a line; nothing
// when the file cannot be read.
func Bytes(path string, n int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	from := max(end-n, 0)
	b := make([]byte, end-from)
	m, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	b = b[:m]
	if from > 0 {
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i+1 < len(b) {
			b = b[i+1:]
		}
	}
	return b
}

// Follow says how a file is copied.
type Follow struct {
	Path  string
	Lines int  // from the end; negative: all
	Go    bool // go on with what is added, until ctx or Done ends
	// Done is closed when nothing more will be added; what there is by then is
	// still copied.
	Done <-chan struct{}
	// Flush is called after each part that was written.
	Flush func() error
}

// Copy writes the end of the file to w, and follows it if asked to. The error is
// fs.ErrNotExist when there is no such file.
func Copy(ctx context.Context, w io.Writer, how Follow) error {
	f, err := os.Open(how.Path)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer f.Close()
	at, err := start(f, how.Lines)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for last := !how.Go; ; {
		at, err = copyFrom(w, f, at)
		if err == nil && how.Flush != nil {
			err = how.Flush()
		}
		if err != nil || last {
			return err
		}
		select {
		case <-tick.C:
		case <-how.Done:
			last = true
		case <-ctx.Done():
			return nil
		}
	}
}

// copyFrom copies from an offset to the present end. A file that was truncated
// is read from its beginning.
func copyFrom(w io.Writer, f *os.File, at int64) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return at, fmt.Errorf("read log: %w", err)
	}
	if info.Size() < at {
		at = 0
	}
	n, err := io.Copy(w, io.NewSectionReader(f, at, info.Size()-at))
	if err != nil {
		return at + n, fmt.Errorf("copy log: %w", err)
	}
	return at + n, nil
}

// start is the offset of the last lines of a file.
func start(f *os.File, lines int) (int64, error) {
	if lines < 0 {
		return 0, nil
	}
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	if lines == 0 {
		return end, nil
	}
	buf := make([]byte, chunk)
	found := 0
	for at := end; at > 0; {
		n := min(at, chunk)
		at -= n
		if _, err := f.ReadAt(buf[:n], at); err != nil {
			return 0, err
		}
		for i := n - 1; i >= 0; i-- {
			// The end of the last line begins none.
			if buf[i] != '\n' || at+i == end-1 {
				continue
			}
			if found++; found == lines {
				return at + i + 1, nil
			}
		}
	}
	return 0, nil
}

// Exists says whether there is a file to read.
func Exists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.ModeType == 0
}
