package main

import (
	"context"
	"path/filepath"

	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/doctor"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
)

// localChecks examines this machine without a server.
func localChecks(ctx context.Context, dataDir string) []api.Check {
	cfg := doctor.Config{Address: "127.0.0.1:7717"}
	var faults []api.Check
	fail := func(name string, err error) {
		faults = append(faults, api.Check{Name: name, Level: doctor.LevelError, Detail: err.Error(), Cost: "no desktop can start"})
	}
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		fail("data-directory", err)
		return faults
	}
	cfg.DataDir, cfg.RuntimeDir = dir, runtimeDir(dir)
	user, err := qemuUser("auto")
	if err != nil {
		fail("qemu-user", err)
	}
	if p, err := qemu.New(qemu.Config{DataDir: dir, RuntimeDir: cfg.RuntimeDir, User: user}); err != nil {
		fail("provider", err)
	} else {
		cfg.Provider = p
		defer p.Close() //nolint:errcheck // it has let go of nothing
	}
	images := filepath.Join(dir, imagesDir)
	if exists(images) {
		cfg.Images = func(ctx context.Context) ([]api.Image, error) {
			store, err := image.Open(image.Config{Dir: images})
			if err != nil {
				return nil, err
			}
			return adapter.Images{Store: store}.List(ctx)
		}
	}
	return append(faults, doctor.Examine(ctx, cfg).Checks...)
}
