// Package revive gives a QEMU that waits for its state the memory, devices and
// framebuffer of a snapshot.
//
// Order matters: virtio devices read their rings from the guest's memory while
// their state is loaded, so the memory comes first. The framebuffer has no place
// before that, so it comes last.
package revive

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/graft"
	"github.com/deskfork/deskfork/pkg/vm/qemu/live"
	"github.com/deskfork/deskfork/pkg/vm/qemu/log"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// Machine is a waiting process and what it becomes.
type Machine struct {
	Mon   *qmp.Client
	PID   int
	RAM   string // the empty file that it maps
	Log   string // its standard error
	Store *store.Store
	Meta  store.Meta
}

// Template puts the template's memory under the process.
func (m Machine) Template(ctx context.Context) error {
	if m.Meta.Stream {
		return nil
	}
	f, err := os.Open(m.Store.File(m.Meta.Template()))
	if err != nil {
		return fmt.Errorf("open template: %w", err)
	}
	defer f.Close()
	r, err := pages.Find(m.PID, m.RAM)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err != nil || info.Size() != r.Size {
		return errors.Join(err, fmt.Errorf("%w: template does not have the size of the memory, %d bytes", vm.ErrCorrupt, r.Size))
	}
	take, err := live.Give(ctx, m.Mon, f)
	if err != nil {
		return err
	}
	fd, err := graft.Descriptor(m.PID, f)
	if err == nil {
		err = graft.Map(ctx, m.PID, r.Addr, r.Size, fd)
	}
	return errors.Join(err, take(ctx))
}

// Pages writes what differs from the template.
func (m Machine) Pages(ctx context.Context) error {
	if m.Meta.Stream || !m.Meta.Has(store.Pages) {
		return nil
	}
	r, err := pages.Find(m.PID, m.Store.File(m.Meta.Template()))
	if err != nil {
		return err
	}
	return m.apply(ctx, store.Pages, r)
}

func (m Machine) apply(ctx context.Context, name string, r pages.Region) (err error) {
	f, err := pages.Open(m.Store.File(m.Meta.Own(name)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Apply(ctx, m.PID, r)
}

// Load loads the state of the devices.
func (m Machine) Load(ctx context.Context) error {
	f, err := os.Open(m.Store.File(m.Meta.Own(store.State)))
	if err != nil {
		return fmt.Errorf("open state: %w", err)
	}
	defer f.Close()
	return live.Load(ctx, m.Mon, f)
}

// Screen writes the framebuffer.
func (m Machine) Screen(ctx context.Context) error {
	if m.Meta.Stream {
		return nil
	}
	addr, size, err := live.Framebuffer(ctx, m.Mon)
	if err != nil {
		return err
	}
	return m.apply(ctx, store.VRAM, pages.Region{Addr: addr, Size: size})
}

// Workspace tells the guest that its second disk is of another size.
func (m Machine) Workspace(ctx context.Context) error {
	disks, err := live.Disks(ctx, m.Mon, argv.WorkspaceID)
	if err != nil {
		return err
	}
	return live.Announce(ctx, m.Mon, disks[0])
}

// Sound reports vm.ErrUnsound when QEMU has said anything that is not known to
// be harmless: it says so when a device found its rings inconsistent, and goes on.
func (m Machine) Sound() error {
	line, err := log.Foreign(m.Log)
	if err != nil {
		return err
	}
	if line != "" {
		return fmt.Errorf("%w: QEMU says %q", vm.ErrUnsound, line)
	}
	return nil
}
