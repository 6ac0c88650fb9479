// Package pages finds, copies and writes back the memory pages that a process
// has changed against a file that it maps privately: what a machine has done to
// the memory of its template.
//
// A fork's parent stands still while its pages are copied. So what can be done
// before is done before (File.Reserve), and what can wait waits (File.Seal,
// File.DropZeros); in between, Copy moves each byte once, straight into the
// mapped file:
//
//	r, _ := pages.Find(pid, template)
//	before, _ := pages.Changed(pid, r)
//	f, _ := pages.Create(path, r.Size)
//	f.Reserve(...)                       // for before, and some more
//	// stop
//	runs, _ := pages.Changed(pid, r)
//	pages.Copy(ctx, pid, r, runs, f)
//	// go on
//	f.DropZeros(templateFile)
//	f.Sync()
//
// It needs the right to trace the process, and nothing of it: Probe finds out.
// Processes are named by their number; that it still is the right process is for
// the caller to know.
package pages

import (
	"fmt"
	"time"
)

// Region is a stretch of a process's memory.
type Region struct {
	Addr uint64
	Size int64 // bytes
}

// Run is a stretch of a region in bytes relative to its start. Lists of runs are
// sorted, without overlap, and begin and end at pages.
type Run struct{ Off, Len int64 }

// Stats is what Copy did.
type Stats struct {
	Data int64 // bytes in pages that hold anything but zeros
	Zero int64 // bytes in pages of zeros
	Took time.Duration
}

// Total is the length of all runs in bytes.
func Total(runs []Run) int64 {
	var n int64
	for _, r := range runs {
		n += r.Len
	}
	return n
}

// maxRegion keeps sums of offsets and lengths far from overflow.
const maxRegion = 1 << 46

// checkRuns reports how runs fail to be a list of runs of a region of this size.
func checkRuns(runs []Run, page, size int64) error {
	if size <= 0 || size > maxRegion || size%page != 0 {
		return fmt.Errorf("a region of %d bytes cannot be", size)
	}
	end := int64(0)
	for _, r := range runs {
		if r.Off < end || r.Len <= 0 || r.Off > size || r.Len > size-r.Off || r.Off%page != 0 || r.Len%page != 0 {
			return fmt.Errorf("run of %d bytes at %d of a region of %d bytes is out of order, out of bounds or not of whole pages", r.Len, r.Off, size)
		}
		end = r.Off + r.Len
	}
	return nil
}

// push appends r to runs, or lengthens the last one when they touch.
func push(runs []Run, r Run) []Run {
	if n := len(runs); n > 0 && runs[n-1].Off+runs[n-1].Len == r.Off {
		runs[n-1].Len += r.Len
		return runs
	}
	return append(runs, r)
}

// subtract is what of a does not lie in b.
func subtract(a, b []Run) []Run {
	var out []Run
	for _, r := range a {
		for len(b) > 0 && b[0].Off+b[0].Len <= r.Off {
			b = b[1:]
		}
		at, end := r.Off, r.Off+r.Len
		for _, cut := range b {
			if cut.Off >= end {
				break
			}
			if cut.Off > at {
				out = append(out, Run{at, cut.Off - at})
			}
			at = max(at, cut.Off+cut.Len)
		}
		if at < end {
			out = append(out, Run{at, end - at})
		}
	}
	return out
}

// merge is all that lies in a or b, which do not overlap.
func merge(a, b []Run) []Run {
	out := make([]Run, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].Off < b[0].Off {
			out, a = push(out, a[0]), a[1:]
		} else {
			out, b = push(out, b[0]), b[1:]
		}
	}
	return out
}
