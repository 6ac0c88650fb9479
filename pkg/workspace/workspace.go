// Package workspace is the vocabulary of workspaces: the disk at /workspace as
// immutable, portable checkpoints that outlive every desktop.
//
// A checkpoint is one manifest and the packs that it names. The disk is blocks
// of 4 KiB; blocks that are not zero lie in chunks (up to 1 MiB, named by a hash
// of their plain bytes), chunks lie compressed in packs (some MiB, one object
// each), and the manifest's runs say which blocks come from where. A checkpoint
// uses the chunks of its parent and adds what has changed; its manifest is whole
// and is written last.
//
// # What a sweep must not remove
//
// A writer uses chunks of its parent only, and no object is ever written again
// under the name of one that was removed, because a pack's name contains its
// checkpoint's. So all that is to be settled is whether a checkpoint is still to
// be had, between somebody who wants it and a sweep that drops it, on a store
// with nothing but consistent puts and lists. Each makes its claim visible first
// and looks for the other's afterwards, so that at least one of them sees the
// other:
//
//   - A writer puts a hold on its parent and on itself, writes, puts its
//     manifest, and then looks for tombs of both (Usable). A tomb: the write has
//     failed, and is not published.
//   - A sweep puts a tomb on what it wants to drop, then lists holds, asks for
//     what is published, reads all manifests, and spares what it finds there.
//
// Clocks decide when something is worth a tomb, never whether it is safe.
package workspace

import (
	"errors"
	"fmt"
	"time"
)

// Block is the unit of change in bytes: that of the usual file systems and of
// the smallest cluster that an overlay tells of.
const Block = 4096

// ID names a workspace: 1 to 64 of a-z, 0-9, '-' and '_', the first one a letter
// or digit.
type ID string

// CheckpointID names a checkpoint in its workspace. The form is that of ID.
type CheckpointID string

// Ref names a checkpoint in the store.
type Ref struct {
	Workspace  ID
	Checkpoint CheckpointID
}

func (r Ref) String() string { return string(r.Workspace) + "/" + string(r.Checkpoint) }

// IsZero says that r names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// Validate reports why r cannot name a checkpoint.
func (r Ref) Validate() error {
	if !validName(string(r.Workspace)) || !validName(string(r.Checkpoint)) {
		return fmt.Errorf("%w: checkpoint name %.140q", ErrInvalid, r.String())
	}
	return nil
}

// Workspace is the files of one session's /workspace, whatever desktop has them.
type Workspace struct {
	ID ID
	// Published is the checkpoint that counts; empty before the first.
	Published CheckpointID
	Created   time.Time
}

// Checkpoint is what is to be said of one without its chunks.
type Checkpoint struct {
	Ref

	Parent  Ref    // zero for the first; it need not be there any more
	Content string // "sha256:" and 64 hex digits, over the manifest and so over every byte of the disk
	Size    int64  // bytes of the disk
	Created time.Time
	Stats   Stats
}

// Stats are sizes in bytes.
type Stats struct {
	Used   int64 // of the disk, without holes
	Stored int64 // of all packs that it needs
	Added  int64 // of the packs that came with it
}

// Extent is a part of a disk in bytes.
type Extent struct{ Offset, Length int64 }

// Sentinels.
var (
	ErrInvalid = errors.New("invalid")
	// ErrMissing and ErrCorrupt: a checkpoint cannot be restored as it was.
	ErrMissing = errors.New("object is missing")
	ErrCorrupt = errors.New("object is damaged")
	// ErrEmpty: the disk has nothing but zeros, which no file system is.
	ErrEmpty = errors.New("disk is empty")
	// ErrCondemned: a sweep has dropped the checkpoint; nothing may be built on
	// it, nor may it be published.
	ErrCondemned = errors.New("checkpoint has been dropped")
)

// DamageError names the object that is missing or damaged.
type DamageError struct {
	Key  string
	What string // what was expected and what was there
	Err  error  // ErrMissing or ErrCorrupt
}

func (e *DamageError) Error() string {
	s := fmt.Sprintf("%v: %s", e.Err, e.Key)
	if e.What != "" {
		s += ": " + e.What
	}
	return s
}

// Unwrap gives the class.
func (e *DamageError) Unwrap() error { return e.Err }

// Hint says to an operator what can be done.
func (e *DamageError) Hint() string {
	return "restore the object from a copy of the store, or choose an older checkpoint; verify names everything that is wrong"
}

func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '-' && c != '_') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}
