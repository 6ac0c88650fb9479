package pages

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/deskfork/deskfork/pkg/vm"
)

// A pages file, numbers little-endian:
//
//	0          magic, version, page size; region size, bytes of data, number of data
//	           runs and of zero runs; CRC-32C of the table, and of the header before it
//	dataAt     data of the data runs, one behind the other
//	           table: offset and length of each data run, then of each zero run
//
// The table lies behind the data, for it is not known when the data is copied.
const (
	magic      = "DFKPAGES"
	version    = 1
	dataAt     = 64 << 10 // a multiple of all page sizes: data is aligned in the file as it is in memory
	headerSize = 56
	entrySize  = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// index says what is in a pages file.
type index struct {
	region int64 // bytes
	bytes  int64 // of data
	runs   []Run
	zeros  []Run
}

// table encodes the runs.
func (x index) table() []byte {
	b := make([]byte, 0, (len(x.runs)+len(x.zeros))*entrySize)
	for _, list := range [][]Run{x.runs, x.zeros} {
		for _, r := range list {
			b = binary.LittleEndian.AppendUint64(b, uint64(r.Off))
			b = binary.LittleEndian.AppendUint64(b, uint64(r.Len))
		}
	}
	return b
}

// header encodes everything else.
func (x index) header(page int64, table []byte) []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = binary.LittleEndian.AppendUint32(b, version)
	b = binary.LittleEndian.AppendUint32(b, uint32(page))
	for _, n := range []int64{x.region, x.bytes, int64(len(x.runs)), int64(len(x.zeros))} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(table, castagnoli))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// counts are what a header says besides the sizes in its index.
type counts struct {
	runs, zeros int64
	table       uint32 // checksum
}

// parse reads the index of a pages file of size bytes. It believes nothing: an
// index that it returns can be used without further checks. vm.ErrCorrupt
// otherwise, unless reading fails.
func parse(f io.ReaderAt, size, page int64) (index, error) {
	if size < dataAt {
		return index{}, fmt.Errorf("%w: %d bytes are no pages file", vm.ErrCorrupt, size)
	}
	h := make([]byte, headerSize)
	if _, err := f.ReadAt(h, 0); err != nil {
		return index{}, fmt.Errorf("read header: %w", err)
	}
	x, n, err := parseHeader(h, page)
	if err != nil {
		return index{}, err
	}
	// Each entry takes room in the file, so that none of this can overflow.
	most := size / entrySize
	if n.runs < 0 || n.zeros < 0 || n.runs > most || n.zeros > most || x.bytes < 0 || x.bytes > size ||
		dataAt+x.bytes+(n.runs+n.zeros)*entrySize != size {
		return index{}, fmt.Errorf("%w: pages file of %d bytes announces %d of data and %d+%d runs", vm.ErrCorrupt, size, x.bytes, n.runs, n.zeros)
	}
	table := make([]byte, (n.runs+n.zeros)*entrySize)
	if _, err := f.ReadAt(table, dataAt+x.bytes); err != nil && len(table) > 0 {
		return index{}, fmt.Errorf("read table: %w", err)
	}
	if crc32.Checksum(table, castagnoli) != n.table {
		return index{}, fmt.Errorf("%w: table of a pages file", vm.ErrCorrupt)
	}
	x.runs, x.zeros = decode(table[:n.runs*entrySize]), decode(table[n.runs*entrySize:])
	return x, x.check(page)
}

// parseHeader checks nothing but that a header of this kind was written so.
func parseHeader(h []byte, page int64) (index, counts, error) {
	num := func(at int) int64 { return int64(binary.LittleEndian.Uint64(h[at:])) }
	word := func(at int) uint32 { return binary.LittleEndian.Uint32(h[at:]) }
	var err error
	switch {
	case string(h[:8]) != magic:
		err = fmt.Errorf("%w: not a pages file, or one that was never finished", vm.ErrCorrupt)
	case crc32.Checksum(h[:headerSize-4], castagnoli) != word(headerSize-4):
		err = fmt.Errorf("%w: header of a pages file", vm.ErrCorrupt)
	case word(8) != version:
		err = fmt.Errorf("%w: pages file of version %d, this program knows %d", vm.ErrCorrupt, word(8), version)
	case int64(word(12)) != page:
		err = fmt.Errorf("%w: pages of %d bytes, this host's have %d", vm.ErrCorrupt, word(12), page)
	}
	return index{region: num(16), bytes: num(24)}, counts{num(32), num(40), word(48)}, err
}

func decode(b []byte) []Run {
	out := make([]Run, len(b)/entrySize)
	for i := range out {
		e := b[i*entrySize:]
		out[i] = Run{int64(binary.LittleEndian.Uint64(e)), int64(binary.LittleEndian.Uint64(e[8:]))}
	}
	return out
}

// check verifies what the parts of an index must have in common.
func (x index) check(page int64) error {
	for _, list := range [][]Run{x.runs, x.zeros} {
		if err := checkRuns(list, page, x.region); err != nil {
			return fmt.Errorf("%w: %w", vm.ErrCorrupt, err)
		}
	}
	if n := Total(x.runs); n != x.bytes {
		return fmt.Errorf("%w: runs of %d bytes, data of %d", vm.ErrCorrupt, n, x.bytes)
	}
	if left := subtract(x.zeros, x.runs); Total(left) != Total(x.zeros) {
		return fmt.Errorf("%w: a page both zero and not", vm.ErrCorrupt)
	}
	return nil
}
