package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Geometry of the overlays made here.
const (
	clusterBits = 16
	cluster     = 1 << clusterBits
	headerBytes = 104
	maxBacking  = 1023 // bytes of a backing file's name
)

// Overlay writes an empty qcow2 file of size bytes over backing, which need not
// exist yet. It is what `qemu-img create -u` makes, in the time of one write.
func Overlay(path, backing, format string, size int64) error {
	if len(backing) == 0 || len(backing) > maxBacking || size <= 0 {
		return fmt.Errorf("make overlay %s of %d bytes over %q: want a size, and a name of 1 to %d bytes", path, size, backing, maxBacking)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make overlay: %w", noSpace(err, ""))
	}
	_, err = f.Write(overlay(backing, format, size))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("make overlay: %w", noSpace(err, ""))
	}
	return nil
}

// overlay lays out version 3 of the format (QEMU's docs/interop/qcow2.txt):
// header, refcount table, refcount block, first-level table.
func overlay(backing, format string, size int64) []byte {
	const perL2 = cluster / 8
	entries := (size + cluster*perL2 - 1) / (cluster * perL2)
	tables := (entries*8 + cluster - 1) / cluster
	b := make([]byte, (3+tables)*cluster)
	be := binary.BigEndian
	copy(b, "QFI\xfb")
	be.PutUint32(b[4:], 3)
	be.PutUint32(b[20:], clusterBits)
	be.PutUint64(b[24:], uint64(size))
	be.PutUint32(b[36:], uint32(entries))
	be.PutUint64(b[40:], 3*cluster) // first-level table
	be.PutUint64(b[48:], 1*cluster) // refcount table
	be.PutUint32(b[56:], 1)         // its clusters
	be.PutUint32(b[96:], 4)         // refcounts of 16 bits
	be.PutUint32(b[100:], headerBytes)
	const extFormat = 0xE2792ACA // name of the backing format
	at := headerBytes
	be.PutUint32(b[at:], extFormat)
	be.PutUint32(b[at+4:], uint32(len(format)))
	copy(b[at+8:], format)
	at += 8 + (len(format)+7)&^7
	at += 8 // end of extensions
	be.PutUint64(b[8:], uint64(at))
	be.PutUint32(b[16:], uint32(len(backing)))
	copy(b[at:], backing)
	be.PutUint64(b[cluster:], 2*cluster) // the only refcount block
	for i := range 3 + tables {
		be.PutUint16(b[2*cluster+2*i:], 1)
	}
	return b
}

// Header is what a qcow2 file says of itself.
type Header struct {
	Bytes   int64 // virtual size
	Backing bool  // there is a file below
}

// Features that a file may have and still stand for itself.
const (
	dirtyBit    = 1 << 0
	extendedL2  = 1 << 4
	compression = 1 << 3
	harmless    = dirtyBit | compression | extendedL2
)

// Inspect reads the header of a file that anybody may have written. One that
// makes QEMU open other files for data is an error.
func Inspect(path string) (Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, fmt.Errorf("inspect disk: %w", err)
	}
	defer f.Close()
	b := make([]byte, headerBytes)
	if _, err := io.ReadFull(f, b); err != nil {
		return Header{}, fmt.Errorf("inspect disk %s: %w", path, err)
	}
	h, err := parseHeader(b)
	if err != nil {
		return Header{}, fmt.Errorf("inspect disk %s: %w", path, err)
	}
	return h, nil
}

func parseHeader(b []byte) (Header, error) {
	be := binary.BigEndian
	version := be.Uint32(b[4:])
	switch {
	case string(b[:4]) != "QFI\xfb":
		return Header{}, errors.New("not a qcow2 file")
	case version != 2 && version != 3:
		return Header{}, fmt.Errorf("version %d of qcow2, want 2 or 3", version)
	case version == 3 && be.Uint64(b[72:])&^uint64(harmless) != 0:
		return Header{}, fmt.Errorf("features %#x: it is damaged, or its data lies in another file", be.Uint64(b[72:]))
	case be.Uint32(b[32:]) != 0:
		return Header{}, errors.New("it is encrypted")
	}
	size := be.Uint64(b[24:])
	if size == 0 || size > 1<<62 {
		return Header{}, fmt.Errorf("a size of %d bytes", size)
	}
	return Header{Bytes: int64(size), Backing: be.Uint64(b[8:]) != 0}, nil
}
