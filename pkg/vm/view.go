package vm

import (
	"context"
	"io"
)

// Extent is a part of a disk in bytes.
type Extent struct{ Offset, Length int64 }

// ViewSpec asks for a view.
type ViewSpec struct {
	// Point names the instant of the view from now on. It shares its names with
	// snapshots, which are points too.
	Point SnapshotID
	// Since is an earlier point of this machine, or of one that it descends from;
	// empty: there is none.
	Since SnapshotID
}

// View is the workspace disk of a machine at one instant. It does not change and
// can be read until it is closed, whatever becomes of the machine. Safe for
// concurrent use.
type View struct {
	Disk  io.ReaderAt // io.EOF behind the last of Bytes
	Bytes int64
	// Changed is all that may differ from what the disk was at Since: sorted,
	// apart from each other, and coarser than what really does.
	Changed []Extent
	// Base is the disk as it was at Since. It may be shorter than Disk; zeros
	// follow. Nil: Full says why.
	Base io.ReaderAt
	// Full says, when it is not empty, why Changed is all of the disk.
	Full string
	// Close lets go of the files.
	Close func() error
}

// Viewer is an ability of a Provider: to read a workspace disk while its machine
// runs.
type Viewer interface {
	// View takes the workspace disk of m as it is now, between two writes of the
	// guest; m goes on. What the guest holds back in its memory is not in it. When
	// it fails m goes on, and Point may or may not be taken: ErrExists the next
	// time. A point is known as long as nothing has been merged into a machine's
	// disks; after that views are full.
	View(ctx context.Context, m Machine, spec ViewSpec) (*View, error)
}

// Filler is a provider whose machines can begin with a disk that was filled in their
// own format, so that it need not be copied.
type Filler interface {
	// NewDisk makes a file at path, which is not there yet, for a disk of so many
	// bytes. It will hold something in holds alone, which is sorted and does not
	// overlap, and reads as zeros elsewhere, and where nothing is written. When it
	// fails something may be there.
	NewDisk(path string, bytes int64, holds []Extent) (DiskWriter, error)
}

// DiskWriter fills a disk. WriteAt may be called by several at a time.
type DiskWriter interface {
	io.WriterAt
	io.Closer
}
