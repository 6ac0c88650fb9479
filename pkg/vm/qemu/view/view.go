// Package view opens frozen workspace disks as a vm.View.
package view

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/qcow2"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

// Open opens a disk of the store. chain is all of its files, the newest one
// first. What they say is read now; their content later, when they may have lost
// their names.
func Open(ctx context.Context, s *store.Store, chain []store.Path, since vm.SnapshotID) (*vm.View, error) {
	var files []*os.File
	v := &vm.View{Close: func() error {
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}}
	var disk qcow2.Chain
	fail := func(err error) (*vm.View, error) {
		return nil, errors.Join(fmt.Errorf("open frozen disk: %w", err), v.Close())
	}
	for _, p := range chain {
		f, err := os.Open(s.File(p))
		if err != nil {
			return fail(err)
		}
		files = append(files, f)
		m, err := qcow2.Open(f)
		if err != nil {
			return fail(fmt.Errorf("%s: %w", p, err))
		}
		disk = append(disk, m)
	}
	if err := disk.Validate(); err != nil {
		return fail(err)
	}
	v.Disk, v.Bytes = disk, disk.Bytes()
	v.Changed = []vm.Extent{{Length: v.Bytes}}
	at := slices.Index(chain, store.At(since, store.Workspace))
	switch {
	case since == "":
		v.Full = "no earlier point was named"
	case at < 0:
		v.Full = fmt.Sprintf("the disk does not stand on point %s any more, or never did", since)
	case disk[at].Bytes() > v.Bytes:
		v.Full = fmt.Sprintf("the disk was larger at point %s", since)
	default:
		var err error
		if v.Changed, err = disk[:at].Allocated(ctx); err != nil {
			return fail(err)
		}
		v.Base = disk[at:]
	}
	return v, nil
}
