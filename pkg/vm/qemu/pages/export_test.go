//go:build linux

package pages

import (
	"io"
	"strings"
)

// What tests look at from outside.
var (
	Subtract = subtract
	Merge    = merge
	Reason   = reason
	MayTrace = mayTrace
	Hidden   = hidden
)

// DataAt is where the data begins in a pages file.
const DataAt = dataAt

// ChangedByRead is Changed on kernels before Linux 6.7.
func ChangedByRead(pid int, r Region) ([]Run, error) { return changed(pid, r, read) }

// ChangedByScan is Changed on later ones; unix.ENOTTY on others.
func ChangedByScan(pid int, r Region) ([]Run, error) { return changed(pid, r, scan) }

// Locate is Find in the text of a memory map.
func Locate(maps, path string) (Region, error) {
	all, err := parseMaps(strings.NewReader(maps))
	if err != nil {
		return Region{}, err
	}
	return locate(all, path)
}

// Index is what Parse has found.
type Index struct {
	Region, Bytes int64
	Runs, Zeros   []Run
}

// Parse is the parser of pages files.
func Parse(f io.ReaderAt, size int64) (Index, error) {
	x, err := parse(f, size, pageSize())
	return Index{x.region, x.bytes, x.runs, x.zeros}, err
}

// Encode makes the parts of a pages file but for its data, with right checksums.
func Encode(x Index) (header, table []byte) {
	in := index{x.Region, x.Bytes, x.Runs, x.Zeros}
	table = in.table()
	return in.header(pageSize(), table), table
}

// Rest is what is left to do of runs after a call has done n bytes.
func Rest(runs []Run, n int64) (left []Run, at int64) {
	pieces := rest(dense(runs), n)
	for _, p := range pieces {
		left = append(left, p.Run)
	}
	if len(pieces) > 0 {
		at = pieces[0].at
	}
	return left, at
}
