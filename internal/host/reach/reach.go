// Package reach opens the live parts of one machine, and keeps its link up as
// long as somebody needs it.
package reach

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Config is what live parts are made from.
type Config struct {
	Desktop string
	Machine vm.Machine
	// Tokens authenticate the host to guestd: one that it takes is among them,
	// the likeliest first. There is at least one.
	Tokens   []string
	Version  string // of the host
	Keyboard string // the guest's layout as far as is known; empty: us
	Logger   *slog.Logger
}

// Opener makes live parts; it starts nothing. adapter.Opener is the real one.
type Opener func(Config) (*live.Desktop, error)

// Parts are the live parts of a machine and what keeps them going.
type Parts struct {
	*live.Desktop

	Machine vm.Machine

	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool // guarded by mu
	wait   sync.WaitGroup
}

// Open makes the parts and keeps the link up until Close; the end of ctx does
// not end it.
func Open(ctx context.Context, open Opener, cfg Config) (*Parts, error) {
	l, err := open(cfg)
	if err != nil {
		return nil, fmt.Errorf("reach desktop %s: %w", cfg.Desktop, err)
	}
	lctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Parts{Desktop: l, Machine: cfg.Machine, ctx: lctx, cancel: cancel}
	p.wait.Go(func() {
		if err := l.Link.Run(lctx); err != nil && lctx.Err() == nil {
			cfg.Logger.Warn("link to the guest ended", "err", err)
		}
	})
	return p, nil
}

// Beside runs fn as long as the link; Close waits for it. A closed one runs
// nothing.
func (p *Parts) Beside(fn func(context.Context)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.wait.Go(func() { fn(p.ctx) })
	}
}

// Close ends the link. Calls in progress end with it. It may be called again,
// and of nil.
func (p *Parts) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wait.Wait()
}

// Until is ctx until the machine ends; then its cause is why it did.
func (p *Parts) Until(ctx context.Context) (context.Context, context.CancelFunc) {
	mctx, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-p.Machine.Done():
			cancel(EndOf(p.Machine))
		case <-mctx.Done():
		}
	})
	return mctx, func() {
		cancel(nil)
		watch.Wait()
	}
}

// EndOf is why a machine ended, never nil.
func EndOf(m vm.Machine) error {
	if err := m.Err(); err != nil {
		return err
	}
	return vm.ErrGone
}
