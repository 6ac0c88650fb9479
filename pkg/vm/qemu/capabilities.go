package qemu

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/accel"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/probe"
)

// Name is what Capabilities calls this provider.
const Name = "qemu"

// Capabilities implements vm.Provider. It is an error when no machine could
// run at all; the probes come with it even then.
func (p *Provider) Capabilities(ctx context.Context) (vm.Capabilities, error) {
	p.capsMu.Lock()
	defer p.capsMu.Unlock()
	if p.caps != nil {
		return *p.caps, nil
	}
	if err := p.makeShared(p.cfg.DataDir); err != nil {
		return vm.Capabilities{}, err
	}
	c := vm.Capabilities{Provider: Name}
	host := probe.Prober{
		QEMU: p.cfg.QEMU, QEMUImg: p.cfg.QEMUImg, Mke2fs: p.cfg.Mke2fs,
		DataDir: p.cfg.DataDir, RuntimeDir: p.cfg.RuntimeDir, CgroupRoot: p.cfg.CgroupRoot, User: p.cfg.User,
	}
	version, err := probe.Version(ctx, p.cfg.QEMU)
	if err != nil {
		c.Limits = append(host.Tools(ctx, "", err), host.Host()...)
		return c, err
	}
	c.Version = version
	c.Limits = append(host.Tools(ctx, version, nil), host.KVMDevice())
	r, err := accel.New(accel.Config{
		QEMU: p.cfg.QEMU, Version: version, CPU: argv.CPUModel,
		Cache: filepath.Join(p.cfg.DataDir, accelFile), Credential: p.cfg.User.Credential(), Logger: p.cfg.Logger,
	}).Resolve(ctx, p.cfg.Accelerator)
	c.Accelerator, c.AcceleratorReason = r.Accelerator, r.Reason
	c.Limits = append(c.Limits, probe.Accelerated(r, err))
	c.Limits = slices.Concat(c.Limits, host.Features(ctx), host.Host())
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
	if p.caps == nil {
		return false
	}
	for _, l := range p.caps.Limits {
		if l.Name == probe.Cgroup {
			return l.OK
		}
	}
	return false
}
