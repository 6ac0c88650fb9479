package qemu

import (
	"errors"
	"fmt"
	"os"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/qcow2"
)

// NewDisk implements vm.Filler.
func (p *Provider) NewDisk(path string, bytes int64, holds []vm.Extent) (vm.DiskWriter, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make disk: %w", err)
	}
	d, err := qcow2.Create(f, bytes, holds)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &filling{Disk: d, f: f}, nil
}

// filling implements vm.DiskWriter.
type filling struct {
	*qcow2.Disk

	f *os.File
}

// Close implements io.Closer.
func (f *filling) Close() error { return f.f.Close() }
