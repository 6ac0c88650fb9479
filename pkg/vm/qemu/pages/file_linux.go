package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
)

// File is changed pages of one region on disk, mapped into our memory. Safe for
// concurrent use. Create, then once Copy, or Open what was made so; Close both.
type File struct {
	file   *os.File
	region int64 // bytes

	mu       sync.RWMutex // held for reading while mem is
	state    state
	mem      []byte // the file from its beginning; nil when closed
	reserved int64  // bytes of data that the file system has promised
	pieces   []piece
	zeros    []Run
}

type state int

const (
	empty  state = iota
	filled       // by Copy; the table is not written yet
	sealed       // nothing changes any more
)

// piece is a run of data and its place behind dataAt. A piece that lies nowhere,
// of zeros, has -1.
type piece struct {
	Run

	at int64
}

// from is p without its first n bytes.
func (p piece) from(n int64) piece {
	p.Off, p.Len = p.Off+n, p.Len-n
	if p.at >= 0 {
		p.at += n
	}
	return p
}

var errClosed = fmt.Errorf("pages file: %w", os.ErrClosed)

// Create makes a pages file, mode 0600, for a region of regionSize bytes. There
// must be none at path. Until Sync or Close has succeeded Open refuses it.
func Create(path string, regionSize int64) (*File, error) {
	if err := checkRuns(nil, pageSize(), regionSize); err != nil {
		return nil, fmt.Errorf("create pages file: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create pages file: %w", noSpace(err))
	}
	// Room for everything, so that the mapping need not grow; it takes none.
	mem, err := stretch(f, dataAt+regionSize)
	if err != nil {
		return nil, fmt.Errorf("create pages file: %w", errors.Join(noSpace(err), f.Close(), os.Remove(path)))
	}
	return &File{file: f, region: regionSize, mem: mem}, nil
}

func stretch(f *os.File, size int64) ([]byte, error) {
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Open opens a pages file for reading. vm.ErrCorrupt when it is damaged in its
// form; its data has no checksum here.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open pages file: %w", err)
	}
	opened, err := open(f)
	if err != nil {
		return nil, fmt.Errorf("open pages file %s: %w", path, errors.Join(err, f.Close()))
	}
	return opened, nil
}

func open(f *os.File) (*File, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	x, err := parse(f, st.Size(), pageSize())
	if err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(dataAt+x.bytes), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &File{file: f, region: x.region, state: sealed, mem: mem, reserved: x.bytes, pieces: dense(x.runs), zeros: x.zeros}, nil
}

// dense lays runs one behind the other.
func dense(runs []Run) []piece {
	out, at := make([]piece, len(runs)), int64(0)
	for i, r := range runs {
		out[i] = piece{r, at}
		at += r.Len
	}
	return out
}

// RegionSize is the size in bytes of the region that f holds pages of.
func (f *File) RegionSize() int64 { return f.region }

// Runs are the pages whose data f holds.
func (f *File) Runs() []Run {
	f.mu.RLock()
	defer f.mu.RUnlock()
	out := make([]Run, 0, len(f.pieces))
	for _, p := range f.pieces {
		out = push(out, p.Run)
	}
	return out
}

// Zeros are the pages that have become zero.
func (f *File) Zeros() []Run {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return append([]Run(nil), f.zeros...)
}

// Bytes is how much data f holds.
func (f *File) Bytes() int64 { return Total(f.Runs()) }

// Reserve readies f for n bytes of data in all, at most its region: room in the
// file system and pages in memory, so that Copy need not wait for them. Copy
// takes a quarter of the time then, and Reserve three times what it saves. What
// turns out to be too much is given back. vm.ErrNoSpace when there is no room.
func (f *File) Reserve(n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.writable(); err != nil {
		return err
	}
	page := pageSize()
	n = min((max(n, 0)+page-1)/page*page, f.region)
	old := f.reserved
	if err := f.allocate(n); err != nil {
		return err
	}
	const step = 8 << 20
	jobs := max(0, int((n-old+step-1)/step))
	err := parallel(context.Background(), jobs, func() func(int) error {
		return func(i int) error {
			from := dataAt + old + int64(i)*step
			err := unix.Madvise(f.mem[from:min(from+step, dataAt+n)], unix.MADV_POPULATE_WRITE)
			if errors.Is(err, unix.EINVAL) { // before Linux 5.14
				return nil
			}
			return err
		}
	})
	if err != nil {
		return fmt.Errorf("make pages of a pages file: %w", err)
	}
	return nil
}

func (f *File) writable() error {
	switch {
	case f.mem == nil:
		return errClosed
	case f.state != empty:
		return errors.New("pages file: it is filled, and only once")
	}
	return nil
}

// allocate makes the file system promise n bytes of data. Without that promise
// a full disk would show in the middle of a copy.
func (f *File) allocate(n int64) error {
	if n <= f.reserved {
		return nil
	}
	err := unix.Fallocate(int(f.file.Fd()), 0, dataAt+f.reserved, n-f.reserved)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("reserve %d bytes of a pages file: %w", n, noSpace(err))
	}
	f.reserved = n
	return nil
}

// data is our memory of n bytes at the place of a piece.
func (f *File) data(at, n int64) []byte { return f.mem[dataAt+at : dataAt+at+n] }

// noSpace marks the errors of a full disk.
func noSpace(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", vm.ErrNoSpace, err)
	}
	return err
}

// touch runs fn, which reads or writes f's memory. A page that the file system
// cannot give, on a damaged or shortened file, is an error and no crash.
func touch(fn func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("touch a pages file: %v", r)
		}
	}()
	fn()
	return nil
}
