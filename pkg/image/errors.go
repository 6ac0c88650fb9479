package image

import (
	"errors"
	"fmt"
)

// What callers branch on. Errors of this package and of its children wrap these.
var (
	ErrNotFound       = errors.New("image not found")
	ErrInUse          = errors.New("image in use")
	ErrCorrupt        = errors.New("image corrupt")
	ErrBadReference   = errors.New("bad image reference")
	ErrBadManifest    = errors.New("bad image manifest")
	ErrBadRecipe      = errors.New("bad image recipe")
	ErrNoSpace        = errors.New("no space left for image")
	ErrMissingPackage = errors.New("host package missing")
	ErrBuildFailed    = errors.New("image build failed")
)

// A hinter is an error that tells an operator what to do.
type hinter interface{ Hint() string }

// Hint returns what an operator can do about err, or "" when nothing is known.
func Hint(err error) string {
	var h hinter
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

// NotFoundError says which reference the store does not hold. It wraps ErrNotFound.
type NotFoundError struct {
	Ref   string
	Known []string // names and tags that exist, sorted; may be empty
}

// Error names the reference.
func (e *NotFoundError) Error() string { return fmt.Sprintf("find image %q: not found", e.Ref) }

// Unwrap returns ErrNotFound.
func (e *NotFoundError) Unwrap() error { return ErrNotFound }

// Hint lists what there is instead.
func (e *NotFoundError) Hint() string {
	if len(e.Known) == 0 {
		return "no image has been built yet; build one with: vmhost image build debian-xfce"
	}
	return fmt.Sprintf("images here: %v", e.Known)
}

// CorruptError says which file of an image is not what its manifest says. It wraps ErrCorrupt.
type CorruptError struct {
	Image  string // digest, or the name of the directory when that cannot be read
	File   string // base name of the file
	Reason string
	Err    error // cause, may be nil
}

// Error names the image, the file and the difference.
func (e *CorruptError) Error() string {
	s := fmt.Sprintf("check image %s: %s: %s", short(e.Image), e.File, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns ErrCorrupt and the cause.
func (e *CorruptError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrCorrupt}
	}
	return []error{ErrCorrupt, e.Err}
}

// Hint tells how to get a sound copy.
func (e *CorruptError) Hint() string {
	return "remove the image and build it again: vmhost image rm " + short(e.Image) + " && vmhost image build"
}

// NoSpaceError says which stage ran out of disk and the numbers. It wraps ErrNoSpace.
type NoSpaceError struct {
	Stage string // for example "pack disk"
	Path  string // directory on the full file system
	Need  int64  // bytes that the stage needs; 0 when unknown
	Free  int64  // bytes that are free
	Err   error  // cause, may be nil
}

// Error names stage, path and numbers.
func (e *NoSpaceError) Error() string {
	if e.Need == 0 {
		return fmt.Sprintf("%s in %s: disk full, %s free", e.Stage, e.Path, mib(e.Free))
	}
	return fmt.Sprintf("%s in %s: needs %s of disk, %s free", e.Stage, e.Path, mib(e.Need), mib(e.Free))
}

// Unwrap returns ErrNoSpace and the cause.
func (e *NoSpaceError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrNoSpace}
	}
	return []error{ErrNoSpace, e.Err}
}

// Hint tells how much to free, and where.
func (e *NoSpaceError) Hint() string {
	if e.Need > e.Free {
		return fmt.Sprintf("free at least %s on the file system of %s, or use another data directory",
			mib(e.Need-e.Free), e.Path)
	}
	return "free space on the file system of " + e.Path + ", or use another data directory"
}

// InUseError says who uses an image. It wraps ErrInUse.
type InUseError struct {
	Image string
	By    string // for example "desktop d-3f9a"
}

// Error names the image and its user.
func (e *InUseError) Error() string {
	return fmt.Sprintf("remove image %s: in use by %s", short(e.Image), e.By)
}

// Unwrap returns ErrInUse.
func (e *InUseError) Unwrap() error { return ErrInUse }

// Hint tells what to delete first.
func (e *InUseError) Hint() string { return "delete " + e.By + " first" }

// mib prints a number of bytes in MiB, rounded up.
func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+(1<<20)-1)>>20) }

// short is the form of a digest that people read.
func short(digest string) string {
	if d, err := ParseDigest(digest); err == nil {
		return d.Short()
	}
	return digest
}
