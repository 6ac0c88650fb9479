package qemu

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/accel"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/incarnation"
	"github.com/deskfork/deskfork/pkg/vm/qemu/probe"
)

// Name is what Capabilities calls this provider.
const Name = "qemu"

// Logs in vm.Info.Dir.
const (
	QEMULogFile   = incarnation.QEMULog
	SerialLogFile = incarnation.SerialLog
)

// accelFile, in the data directory, remembers what the accelerator probe found.
const accelFile = "accel.json"

// Capabilities implements vm.Provider. It is an error when no machine could
// run at all; the probes come with it even then.
func (p *Provider) Capabilities(ctx context.Context) (vm.Capabilities, error) {
	p.capsMu.Lock()
	defer p.capsMu.Unlock()
	if p.caps != nil {
		return *p.caps, nil
	}
	if err := p.root.MakeShared(p.cfg.DataDir); err != nil {
		return vm.Capabilities{}, err
	}
	c, err := probe.Prober{
		QEMU: p.cfg.QEMU, QEMUImg: p.cfg.QEMUImg, Mke2fs: p.cfg.Mke2fs,
		DataDir: p.cfg.DataDir, RuntimeDir: p.cfg.RuntimeDir, CgroupRoot: p.cfg.CgroupRoot, User: p.cfg.User,
	}.Capabilities(ctx, p.cfg.Accelerator, accel.Config{
		QEMU: p.cfg.QEMU, CPU: argv.CPUModel, Cache: filepath.Join(p.cfg.DataDir, accelFile),
		Credential: p.cfg.User.Credential(), Logger: p.cfg.Logger,
	})
	c.Provider = Name
	if err != nil {
		return c, err
	}
	p.caps = &c
	return c, nil
}

// cgroups reports whether machines get cgroups with limits. For use after
// Capabilities.
func (p *Provider) cgroups() bool {
	p.capsMu.Lock()
	defer p.capsMu.Unlock()
	return p.caps != nil && slices.ContainsFunc(p.caps.Limits, func(l vm.Probe) bool { return l.Name == probe.Cgroup && l.OK })
}
