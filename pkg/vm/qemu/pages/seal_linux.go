package pages

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// DropZeros forgets the zero pages that read as zeros in base anyway, for it has
// holes there. base is what the region of the process is a private mapping of,
// and of those that the pages are to be written into. After Copy and before Seal.
func (f *File) DropZeros(base *os.File) error {
	data, err := dataOf(base)
	if err != nil {
		return fmt.Errorf("look for holes: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state != filled || f.mem == nil {
		return errors.New("pages file: zeros are dropped after Copy and before it is sealed")
	}
	holes := subtract([]Run{{0, f.region}}, widen(data))
	f.zeros = subtract(f.zeros, holes)
	return nil
}

// dataOf lists what of a file is no hole.
func dataOf(file *os.File) ([]Run, error) {
	var out []Run
	for at := int64(0); ; {
		from, err := unix.Seek(int(file.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if at, err = unix.Seek(int(file.Fd()), from, unix.SEEK_HOLE); err != nil {
			return nil, err
		}
		out = push(out, Run{from, at - from})
	}
}

// widen moves the ends of runs out to whole pages.
func widen(runs []Run) []Run {
	page := pageSize()
	var out []Run
	for _, r := range runs {
		from, to := r.Off/page*page, (r.Off+r.Len+page-1)/page*page
		if n := len(out); n > 0 {
			from = max(from, out[n-1].Off+out[n-1].Len)
		}
		if from < to {
			out = push(out, Run{from, to - from})
		}
	}
	return out
}

// Seal finishes what Copy has filled: gives back the room of zero pages and of
// what was reserved in vain, and writes the table. Idempotent.
func (f *File) Seal() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seal()
}

func (f *File) seal() error {
	switch {
	case f.mem == nil:
		return errClosed
	case f.state == empty:
		return errors.New("pages file: nothing was copied into it")
	case f.state == sealed:
		return nil
	}
	if err := touch(f.compact); err != nil {
		return err
	}
	x := index{region: f.region, zeros: f.zeros}
	for _, p := range f.pieces {
		x.runs = append(x.runs, p.Run)
	}
	x.bytes = Total(x.runs)
	table := x.table()
	// First the end, so that room for the table is free on a full disk.
	err := f.file.Truncate(dataAt + x.bytes)
	if err == nil {
		_, err = f.file.WriteAt(table, dataAt+x.bytes)
	}
	if err == nil { // last, for it makes the file one that Open takes
		_, err = f.file.WriteAt(x.header(pageSize(), table), 0)
	}
	if err != nil {
		return fmt.Errorf("seal pages file: %w", noSpace(err))
	}
	f.state = sealed
	return nil
}

// compact moves the data together, over the places of pages that were zero.
func (f *File) compact() {
	at := int64(0)
	for i, p := range f.pieces {
		if p.at != at {
			copy(f.data(at, p.Len), f.data(p.at, p.Len))
			f.pieces[i].at = at
		}
		at += p.Len
	}
}

// Sync seals f, and makes it survive a crash of the host, except for its name.
func (f *File) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.seal(); err != nil {
		return err
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("sync pages file: %w", noSpace(err))
	}
	return nil
}

// Close seals f if Copy has filled it and gives back file and memory. Closing
// again does nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mem == nil {
		return nil
	}
	var err error
	if f.state == filled {
		err = f.seal()
	}
	err = errors.Join(err, unix.Munmap(f.mem), f.file.Close())
	f.mem = nil
	return err
}
