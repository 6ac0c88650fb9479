package qcow2

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"

	"github.com/deskfork/deskfork/pkg/vm"
)

// Geometry of files written here: QEMU's own defaults.
const (
	newBits    = 16
	newCluster = 1 << newBits
	perTable   = newCluster / 8 // entries of a second-level table
	perRefs    = newCluster / 2 // refcounts of 16 bits in a cluster
	own        = 1 << 63        // of an entry: its cluster has one reference
)

// File is where a Disk lies: new and empty.
type File interface {
	io.WriterAt
	Truncate(size int64) error
}

// Disk is a new file without a backing file, whose clusters have their places
// before anything is in them, so that they can be written in any order and several
// at a time. What is not written reads as zeros.
type Disk struct {
	f     io.WriterAt
	bytes int64
	runs  []run // by first
}

// run is clusters of the disk that lie together in the file.
type run struct {
	first, count int64 // clusters
	place        int64 // of the first one, in bytes
}

// Make is Create for a file at path, which is not there yet. When it fails something
// may be there.
func Make(path string, bytes int64, holds []vm.Extent) (vm.DiskWriter, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make disk: %w", err)
	}
	d, err := Create(f, bytes, holds)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return closing{d, f}, nil
}

// closing implements vm.DiskWriter.
type closing struct {
	*Disk
	io.Closer
}

// Create lays out a disk of bytes that will hold something in holds alone, which is
// sorted and does not overlap.
func Create(f File, bytes int64, holds []vm.Extent) (*Disk, error) {
	if bytes <= 0 || bytes > maxBytes {
		return nil, fmt.Errorf("make a disk of %d bytes: want 1 to %d", bytes, int64(maxBytes))
	}
	d := &Disk{f: f, bytes: bytes}
	end := int64(0)
	for _, e := range holds {
		if e.Length <= 0 || e.Offset < end || e.Length > bytes-e.Offset {
			return nil, fmt.Errorf("make a disk of %d bytes: it cannot hold %+v behind %d", bytes, e, end)
		}
		end = e.Offset + e.Length
		d.hold(e.Offset>>newBits, (end-1)>>newBits+1)
	}
	if err := d.lay(f); err != nil {
		return nil, fmt.Errorf("make a disk of %d bytes: %w", bytes, err)
	}
	return d, nil
}

// hold adds the clusters from first to before end, of which some may be there.
func (d *Disk) hold(first, end int64) {
	if n := len(d.runs) - 1; n >= 0 {
		last := &d.runs[n]
		if have := last.first + last.count; first <= have {
			last.count = max(last.count, end-last.first)
			return
		}
	}
	d.runs = append(d.runs, run{first: first, count: end - first})
}

// layout is how many clusters each part of a file has, in their order.
type layout struct{ refTable, refs, first, second, data int64 }

func (l layout) clusters() int64 { return 1 + l.refTable + l.refs + l.first + l.second + l.data }

// plan counts what the disk takes.
func (d *Disk) plan() layout {
	spans := ceil(d.bytes, newCluster*perTable)
	l := layout{first: ceil(spans*8, newCluster)}
	last := int64(-1)
	for _, r := range d.runs {
		l.data += r.count
		from, to := max(r.first/perTable, last+1), (r.first+r.count-1)/perTable
		l.second, last = l.second+to-from+1, to
	}
	for { // refcounts count the clusters that they are in
		refs := ceil(l.clusters(), perRefs)
		table := ceil(refs*8, newCluster)
		if refs == l.refs && table == l.refTable {
			return l
		}
		l.refs, l.refTable = refs, table
	}
}

func ceil(n, by int64) int64 { return (n + by - 1) / by }

// lay writes all but the data, and gives the runs their places.
func (d *Disk) lay(f File) error {
	l := d.plan()
	if err := f.Truncate(l.clusters() * newCluster); err != nil {
		return err
	}
	place := (l.clusters() - l.data) * newCluster
	for i := range d.runs {
		d.runs[i].place = place
		place += d.runs[i].count * newCluster
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, 0), 1<<20)
	d.header(w, l)
	entries(w, l.refTable, l.refs, func(i int64) uint64 { return uint64((1 + l.refTable + i) * newCluster) })
	for i := range l.refs * perRefs {
		var b [2]byte
		if i < l.clusters() {
			b[1] = 1
		}
		_, _ = w.Write(b[:])
	}
	d.tables(w, l)
	return w.Flush() // of all writes the first error
}

func (d *Disk) header(w *bufio.Writer, l layout) {
	b := make([]byte, newCluster)
	be := binary.BigEndian
	copy(b, "QFI\xfb")
	be.PutUint32(b[4:], 3)
	be.PutUint32(b[20:], newBits)
	be.PutUint64(b[24:], uint64(d.bytes))
	be.PutUint32(b[36:], uint32(ceil(d.bytes, newCluster*perTable)))
	be.PutUint64(b[40:], uint64((1+l.refTable+l.refs)*newCluster))
	be.PutUint64(b[48:], newCluster)
	be.PutUint32(b[56:], uint32(l.refTable))
	be.PutUint32(b[96:], 4) // refcounts of 16 bits
	be.PutUint32(b[100:], headerBytes)
	_, _ = w.Write(b)
}

// entries writes n entries, and zeros up to the end of a number of clusters.
func entries(w *bufio.Writer, clusters, n int64, entry func(int64) uint64) {
	var b [8]byte
	for i := range clusters * perTable {
		v := uint64(0)
		if i < n {
			v = entry(i)
		}
		binary.BigEndian.PutUint64(b[:], v)
		_, _ = w.Write(b[:])
	}
}

// tables writes the first-level table, and second-level tables for what is held.
func (d *Disk) tables(w *bufio.Writer, l layout) {
	at := (1 + l.refTable + l.refs + l.first) * newCluster
	used := d.spans()
	next := 0
	entries(w, l.first, ceil(d.bytes, newCluster*perTable), func(i int64) uint64 {
		if next == len(used) || used[next] != i {
			return 0
		}
		next++
		return own | uint64(at+int64(next-1)*newCluster)
	})
	n := 0
	for _, span := range used {
		entries(w, 1, perTable, func(i int64) uint64 {
			c := span*perTable + i
			for n < len(d.runs) && d.runs[n].first+d.runs[n].count <= c {
				n++
			}
			if n == len(d.runs) || d.runs[n].first > c {
				return 0
			}
			return own | uint64(d.runs[n].place+(c-d.runs[n].first)*newCluster)
		})
	}
}

// spans are the numbers of the second-level tables that are needed.
func (d *Disk) spans() []int64 {
	var used []int64
	for _, r := range d.runs {
		for s := r.first / perTable; s <= (r.first+r.count-1)/perTable; s++ {
			if len(used) == 0 || used[len(used)-1] < s {
				used = append(used, s)
			}
		}
	}
	return used
}

// errNotHeld is about a write that the caller has not announced.
var errNotHeld = errors.New("the disk was not to hold anything there")

// WriteAt writes to the disk, where it holds something. It may be called by several
// at a time.
func (d *Disk) WriteAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		at := off + int64(done)
		c := at >> newBits
		i := sort.Search(len(d.runs), func(i int) bool { return d.runs[i].first+d.runs[i].count > c })
		if off < 0 || at >= d.bytes || i == len(d.runs) || d.runs[i].first > c {
			return done, fmt.Errorf("write to disk at %d: %w", at, errNotHeld)
		}
		r := d.runs[i]
		from := at - r.first<<newBits
		room := min(r.count<<newBits-from, d.bytes-at)
		n, err := d.f.WriteAt(p[done:min(int64(len(p)), int64(done)+room)], r.place+from)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
