package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/vm"
)

// openParts are the live parts of a machine and what keeps them going.
type openParts struct {
	*live.Desktop

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// open makes the live parts of a machine and keeps its link up until
// closeParts.
func (d *desktop) open(ctx context.Context, m vm.Machine) (*openParts, error) {
	l, err := d.host.cfg.Open(OpenConfig{
		Desktop: d.id, Machine: m, Token: d.token, Version: d.host.cfg.Version,
		Keyboard: d.snapshot().Keyboard, Logger: d.log,
	})
	if err != nil {
		return nil, fmt.Errorf("reach desktop %s: %w", d.id, err)
	}
	// The link outlives the start; closeParts ends it.
	lctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &openParts{Desktop: l, ctx: lctx, cancel: cancel}
	p.wait.Go(func() {
		if err := l.Link.Run(lctx); err != nil && lctx.Err() == nil {
			d.log.Warn("link to the guest ended", "err", err)
		}
	})
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened = p
	d.live = l
	d.wake()
	return p, nil
}

// beside runs fn as long as the link, if there is one; closeParts waits for it.
func (d *desktop) beside(fn func(context.Context)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.opened; p != nil {
		p.wait.Go(func() { fn(p.ctx) })
	}
}

// closeParts ends the link. Calls in progress end with it.
func (d *desktop) closeParts() {
	d.mu.Lock()
	p := d.opened
	d.opened, d.live = nil, nil
	d.wake()
	d.mu.Unlock()
	if p == nil {
		return
	}
	p.cancel()
	p.wait.Wait()
}

// wish is how the guest of this desktop shall be.
func (d *desktop) wish() boot.Wish {
	v := d.snapshot()
	return boot.Wish{
		Generation: v.Incarnation, Env: v.Env, Display: v.Display, Keyboard: v.Keyboard,
		User: d.user, Workspace: workspaceDevice,
	}
}

// workspaceDevice is the second disk of every machine.
const workspaceDevice = "/dev/vdb"
