package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/port"
	"github.com/deskfork/deskfork/pkg/vm/qemu/store"
)

var (
	_ vm.Porter = (*Provider)(nil)
	_ vm.Keeper = (*Provider)(nil)
)

// Kept implements vm.Keeper.
func (p *Provider) Kept(ctx context.Context) ([]vm.Kept, error) { return p.store.Kept(ctx) }

// Export implements vm.Porter.
func (p *Provider) Export(ctx context.Context, id vm.SnapshotID, w io.Writer) (err error) {
	if err := p.own(); err != nil {
		return err
	}
	m, release, err := p.store.Pin(id)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer release()
	if err := p.store.Verify(ctx, m); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	scratch, err := p.store.Scratch()
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	return port.Export(ctx, p.tools.Tools, p.store, m, scratch, w)
}

// Import implements vm.Porter.
func (p *Provider) Import(ctx context.Context, id vm.SnapshotID, system vm.Disk, r io.Reader) (vm.Snapshot, error) {
	if err := p.own(); err != nil {
		return vm.Snapshot{}, err
	}
	if err := p.root.MakeShared(p.cfg.DataDir); err != nil {
		return vm.Snapshot{}, err
	}
	return port.Import(ctx, p.tools.Tools, p.store, id, store.Base{Path: system.Base, Format: system.BaseFormat}, p.root.Take, r)
}
