//go:build !linux

package pages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

var errNotHere = fmt.Errorf("changed pages of processes are known on Linux alone: %w", errors.ErrUnsupported)

// File is changed pages of one region on disk; not here.
type File struct{}

// Find is not supported here.
func Find(int, string) (Region, error) { return Region{}, errNotHere }

// FindAt is not supported here.
func FindAt(int, uint64) (Region, error) { return Region{}, errNotHere }

// Changed is not supported here.
func Changed(int, Region) ([]Run, error) { return nil, errNotHere }

// Create is not supported here.
func Create(string, int64) (*File, error) { return nil, errNotHere }

// Open is not supported here.
func Open(string) (*File, error) { return nil, errNotHere }

// Copy is not supported here.
func Copy(context.Context, int, Region, []Run, *File) (Stats, error) { return Stats{}, errNotHere }

// Probe is not supported here.
func Probe() error { return errNotHere }

// ProbeAs is not supported here.
func ProbeAs(*syscall.SysProcAttr) error { return errNotHere }

// RegionSize is not supported here.
func (*File) RegionSize() int64 { return 0 }

// Runs is not supported here.
func (*File) Runs() []Run { return nil }

// Zeros is not supported here.
func (*File) Zeros() []Run { return nil }

// Bytes is not supported here.
func (*File) Bytes() int64 { return 0 }

// Reserve is not supported here.
func (*File) Reserve(int64) error { return errNotHere }

// DropZeros is not supported here.
func (*File) DropZeros(*os.File) error { return errNotHere }

// Seal is not supported here.
func (*File) Seal() error { return errNotHere }

// Sync is not supported here.
func (*File) Sync() error { return errNotHere }

// Close is not supported here.
func (*File) Close() error { return errNotHere }

// Apply is not supported here.
func (*File) Apply(context.Context, int, Region) error { return errNotHere }

// Materialize is not supported here.
func (*File) Materialize(context.Context, *os.File, string) error { return errNotHere }
