// Package qcow2 reads disks in QEMU's format (docs/interop/qcow2.txt of QEMU)
// without QEMU: which clusters a file holds, and the bytes of a chain of files. It
// writes new ones too, whose content comes in any order.
//
// The files that are read were written by a QEMU that runs a stranger's guest. Nothing that a
// header says is opened, which files make a chain is the caller's to know, and
// whatever the bytes are, reading takes bounded memory and never fails but with
// an error.
package qcow2

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Bounds.
const (
	headerBytes = 104
	maxBytes    = 16 << 40 // of a disk
	maxTable    = 32 << 20 // bytes of the first-level table, as in QEMU
	keptTables  = 32       // second-level tables that a file keeps in memory
)

// Errors.
var (
	// ErrFormat says that a file is not what this package reads.
	ErrFormat = errors.New("cannot read qcow2 file")
)

// Image is one file. Safe for concurrent use.
type Image struct {
	r       io.ReaderAt
	bytes   int64 // virtual size
	bits    uint  // of a cluster's size
	zeros   bool  // clusters can be marked as zero
	backing bool
	first   []uint64 // first-level table

	mu     sync.Mutex
	tables map[uint64][]uint64 // guarded by mu; second-level tables by place
}

// Open reads header and first-level table.
func Open(r io.ReaderAt) (*Image, error) {
	b := make([]byte, headerBytes)
	if _, err := r.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrFormat, err)
	}
	m := &Image{r: r, tables: make(map[uint64][]uint64)}
	n, at, err := m.header(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if m.first, err = m.table(at, n); err != nil {
		return nil, fmt.Errorf("%w: first-level table: %w", ErrFormat, err)
	}
	return m, nil
}

// header returns how many entries the first-level table has, and where it is.
func (m *Image) header(b []byte) (entries int64, at uint64, err error) {
	be := binary.BigEndian
	version, size := be.Uint32(b[4:]), be.Uint64(b[24:])
	const dirty = 1
	switch {
	case string(b[:4]) != "QFI\xfb":
		return 0, 0, errors.New("no magic number")
	case version != 2 && version != 3:
		return 0, 0, fmt.Errorf("version %d", version)
	case version == 3 && be.Uint64(b[72:])&^dirty != 0:
		return 0, 0, fmt.Errorf("features %#x", be.Uint64(b[72:]))
	case be.Uint32(b[32:]) != 0:
		return 0, 0, errors.New("it is encrypted")
	case size == 0 || size > maxBytes:
		return 0, 0, fmt.Errorf("a disk of %d bytes", size)
	}
	const least, most = 9, 21
	m.bits = uint(be.Uint32(b[20:]))
	if m.bits < least || m.bits > most {
		return 0, 0, fmt.Errorf("clusters of 2^%d bytes", m.bits)
	}
	m.bytes, m.zeros, m.backing = int64(size), version == 3, be.Uint64(b[8:]) != 0
	span := m.cluster() * m.perTable()
	entries = (m.bytes + span - 1) / span
	if have := int64(be.Uint32(b[36:])); have < entries || entries*8 > maxTable {
		return 0, 0, fmt.Errorf("a first-level table of %d entries, want %d", have, entries)
	}
	return entries, be.Uint64(b[40:]), nil
}

// Bytes is the virtual size.
func (m *Image) Bytes() int64 { return m.bytes }

// Backing says that the file stands on another one.
func (m *Image) Backing() bool { return m.backing }

func (m *Image) cluster() int64  { return 1 << m.bits }
func (m *Image) perTable() int64 { return m.cluster() / 8 }

// table reads n entries. One that ends early is an error: it says where data is.
func (m *Image) table(at uint64, n int64) ([]uint64, error) {
	if at == 0 || at > 1<<56 || at&511 != 0 {
		return nil, fmt.Errorf("it is said to be at %#x", at)
	}
	b := make([]byte, n*8)
	if _, err := m.r.ReadAt(b, int64(at)); err != nil {
		return nil, err
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.BigEndian.Uint64(b[i*8:])
	}
	return out, nil
}

// second gives the second-level table that a first-level entry names; nil: none.
func (m *Image) second(entry uint64) ([]uint64, error) {
	at := entry & placeBits
	if at == 0 {
		return nil, nil
	}
	m.mu.Lock()
	t, ok := m.tables[at]
	m.mu.Unlock()
	if ok {
		return t, nil
	}
	t, err := m.table(at, m.perTable())
	if err != nil {
		return nil, fmt.Errorf("%w: second-level table: %w", ErrFormat, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tables) >= keptTables {
		clear(m.tables) // reads go from one end to the other
	}
	m.tables[at] = t
	return t, nil
}

// Bits of the tables' entries.
const (
	placeBits  = 0x00fffffffffffe00
	compressed = 1 << 62
	zeroBit    = 1
)

// kind is what a file has at a place.
type kind int

const (
	absent kind = iota // the file below is to be asked
	zero
	data
)

// look says what a second-level entry means.
func (m *Image) look(entry uint64) (kind, int64, error) {
	switch at := entry & placeBits; {
	case entry&compressed != 0:
		return absent, 0, fmt.Errorf("%w: a compressed cluster, which no disk of a machine has", ErrFormat)
	case m.zeros && entry&zeroBit != 0:
		return zero, 0, nil
	case at == 0:
		return absent, 0, nil
	default:
		return data, int64(at), nil
	}
}

// find says what the file has at off, for how many bytes that holds, and where in
// the file they lie. Behind its end a file has nothing.
func (m *Image) find(off int64) (k kind, place, n int64, err error) {
	if off >= m.bytes {
		return absent, 0, maxBytes, nil
	}
	span := m.cluster() * m.perTable()
	t, err := m.second(m.first[off/span])
	if err != nil {
		return absent, 0, 0, err
	}
	if t == nil {
		return absent, 0, min(span-off%span, m.bytes-off), nil
	}
	in := off % m.cluster()
	k, place, err = m.look(t[off%span>>m.bits])
	return k, place + in, min(m.cluster()-in, m.bytes-off), err
}
