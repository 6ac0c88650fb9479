package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/internal/host/leases/hosted"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/vm"
)

// newLeases joins the leases of managed runtimes to a host; end closes their database.
func newLeases(ctx context.Context, cfg serveConfig, h *host.Host, provider vm.Provider) (d *leases.Desk, end func() error, err error) {
	book, err := leases.OpenBook(ctx, filepath.Join(cfg.dataDir, leases.FileName))
	if err != nil {
		return nil, nil, err
	}
	_, suspends := provider.(vm.Snapshotter)
	on := hosted.Config{Host: h, Suspends: suspends, Outputs: session.OutputPath}
	d = leases.New(leases.Config{
		Provider: hosted.Provider, Version: version, Book: book, Logger: cfg.log, Machines: on.Machines, Guest: on.Guest,
	})
	if err := d.Begin(ctx); err != nil {
		return nil, nil, errors.Join(err, book.Close())
	}
	return d, book.Close, nil
}

// runLeases ends machines whose lease has run out, once the host knows what runs.
func runLeases(ctx context.Context, h *host.Host, d *leases.Desk) {
	select {
	case <-h.Ready():
		d.Run(ctx)
	case <-ctx.Done():
	}
}
