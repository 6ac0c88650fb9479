package pages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Bits of an entry of /proc/PID/pagemap (admin-guide/mm/pagemap.rst).
const (
	present = 1 << 63
	swapped = 1 << 62
	ofFile  = 1 << 61 // or shared anonymous memory
)

// segment is how much of a region one goroutine looks through at a time.
const segment = 256 << 20

func pageSize() int64 { return int64(os.Getpagesize()) }

// Changed returns the pages of r that belong to process pid alone, in memory or
// swapped out: in a private mapping of a file those that it wrote to.
func Changed(pid int, r Region) ([]Run, error) {
	return changed(pid, r, func(f *os.File, s Region) ([]Run, error) {
		runs, err := scan(f, s)
		if errors.Is(err, unix.ENOTTY) { // before Linux 6.7
			return read(f, s)
		}
		return runs, err
	})
}

// changed puts together what look finds in the segments of r; runs of look are
// relative to its region.
func changed(pid int, r Region, look func(*os.File, Region) ([]Run, error)) ([]Run, error) {
	if page := uint64(pageSize()); r.Addr%page != 0 || r.Size <= 0 || uint64(r.Size)%page != 0 {
		return nil, fmt.Errorf("look for changed pages: %d bytes at %#x are not whole pages", r.Size, r.Addr)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil, failed("look for changed pages", pid, err)
	}
	defer f.Close()
	found := make([][]Run, (r.Size+segment-1)/segment)
	err = parallel(context.Background(), len(found), func() func(int) error {
		return func(i int) error {
			off := int64(i) * segment
			var err error
			found[i], err = look(f, Region{Addr: r.Addr + uint64(off), Size: min(segment, r.Size-off)})
			return err
		}
	})
	if err != nil {
		return nil, failed("look for changed pages", pid, err)
	}
	var out []Run
	for i, runs := range found {
		for _, run := range runs {
			out = push(out, Run{run.Off + int64(i)*segment, run.Len})
		}
	}
	return out, nil
}

// read goes through the entries of all pages.
func read(f *os.File, r Region) ([]Run, error) {
	page := pageSize()
	entries := make([]uint64, min(r.Size/page, 32<<10))
	var out []Run
	for off := int64(0); off < r.Size; {
		want := entries[:min(int64(len(entries)), (r.Size-off)/page)]
		b := unsafe.Slice((*byte)(unsafe.Pointer(&want[0])), len(want)*8)
		n, err := f.ReadAt(b, int64(r.Addr+uint64(off))/page*8)
		if err != nil && (n < 8 || !errors.Is(err, io.EOF)) {
			if errors.Is(err, io.EOF) {
				err = vm.ErrGone
			}
			return nil, err
		}
		for i, e := range want[:n/8] {
			if e&(present|swapped) != 0 && e&ofFile == 0 {
				out = push(out, Run{off + int64(i)*page, page})
			}
		}
		off += int64(n/8) * page
	}
	return out, nil
}

// Structures and numbers of PAGEMAP_SCAN, which lets the kernel itself choose
// the pages: for a few changed pages among many it takes a half to a tenth of the
// time, for many as much.
const (
	pagemapScan = 0xc0606610 // _IOWR('f', 16, scanArg)
	scanFile    = 1 << 2
	scanPresent = 1 << 3
	scanSwapped = 1 << 4
)

type scanArg struct {
	size, flags                     uint64
	start, end, walkEnd             uint64
	vec, vecLen, maxPages           uint64
	inverted, all, anyOf, returning uint64
}

type scanRegion struct{ start, end, categories uint64 }

// scan asks for what is present or swapped, and not of a file.
func scan(f *os.File, r Region) ([]Run, error) {
	vec := make([]scanRegion, 4<<10)
	var pin runtime.Pinner // the kernel is told its address as a number
	pin.Pin(&vec[0])
	defer pin.Unpin()
	var out []Run
	last, end := r.Addr, r.Addr+uint64(r.Size)
	for at := r.Addr; at < end; {
		arg := scanArg{
			start: at, end: end,
			vec: uint64(uintptr(unsafe.Pointer(&vec[0]))), vecLen: uint64(len(vec)),
			inverted: scanFile, all: scanFile, anyOf: scanPresent | scanSwapped, returning: scanFile,
		}
		arg.size = uint64(unsafe.Sizeof(arg))
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), pagemapScan, uintptr(unsafe.Pointer(&arg)))
		if errno != 0 {
			return nil, errno
		}
		for _, s := range vec[:n] {
			// Linux 6.18 hands out its last 512 once more in some cases.
			if s.start = max(s.start, last); s.start < s.end {
				out = push(out, Run{int64(s.start - r.Addr), int64(s.end - s.start)})
				last = s.end
			}
		}
		if arg.walkEnd <= at {
			return nil, fmt.Errorf("the kernel's search stands still at %#x", at)
		}
		at = arg.walkEnd
	}
	return out, nil
}
