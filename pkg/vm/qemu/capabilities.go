package qemu

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/accel"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
)

// Name is what Capabilities calls this provider.
const Name = "qemu"

// Names of the probes, in order.
const (
	ProbeQEMU         = "qemu"
	ProbeQEMUImg      = "qemu-img"
	ProbeMke2fs       = "mke2fs"
	ProbeKVM          = "kvm-device"
	ProbeAccelerator  = "accelerator"
	ProbeSandbox      = "sandbox"
	ProbeNetdev       = "dgram-netdev"
	ProbeDevices      = "devices"
	ProbeCgroup       = "cgroup-v2"
	ProbeMemory       = "memory"
	ProbeMemoryAccess = "memory-access"
	ProbeUser         = "user-drop"
)

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
	version, err := qemuVersion(ctx, p.cfg.QEMU)
	if err != nil {
		c.Limits = append(p.toolProbes(ctx, "", err), p.hostProbes()...)
		return c, err
	}
	c.Version = version
	c.Limits = append(p.toolProbes(ctx, version, nil), probeKVMDevice(p.cfg.User))
	r, err := accel.New(accel.Config{
		QEMU: p.cfg.QEMU, Version: version, CPU: argv.CPUModel,
		Cache: filepath.Join(p.cfg.DataDir, accelFile), Credential: p.cfg.User.Credential(), Logger: p.cfg.Logger,
	}).Resolve(ctx, p.cfg.Accelerator)
	c.Accelerator, c.AcceleratorReason = r.Accelerator, r.Reason
	c.Limits = append(c.Limits, probeAccelerator(r, err), p.probeSandbox(ctx), p.probeNetdev(ctx), p.probeDevices(ctx))
	c.Limits = append(c.Limits, p.hostProbes()...)
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
		if l.Name == ProbeCgroup {
			return l.OK
		}
	}
	return false
}

const probeTimeout = 20 * time.Second

// output runs a program to its end and returns what it printed.
func output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = []string{"LC_ALL=C"}
	b, err := cmd.CombinedOutput()
	if err != nil {
		return string(b), fmt.Errorf("run %s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(b), nil
}

var versionPattern = regexp.MustCompile(`version (\d+\.\d+[^\s,]*)`)

// minimum is the first QEMU with the dgram netdev.
const minimum = "7.2"

func qemuVersion(ctx context.Context, program string) (string, error) {
	out, err := output(ctx, program, "-version")
	if err != nil {
		return "", err
	}
	m := versionPattern.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("read QEMU's version from %.80q", out)
	}
	var major, minor int
	if _, err := fmt.Sscanf(m[1], "%d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("read QEMU's version from %q: %w", m[1], err)
	}
	if major < 7 || major == 7 && minor < 2 {
		return "", fmt.Errorf("QEMU %s is too old: want at least %s", m[1], minimum)
	}
	return m[1], nil
}

func probeAccelerator(r accel.Result, err error) vm.Probe {
	pr := vm.Probe{Name: ProbeAccelerator, OK: err == nil && r.Accelerator == vm.AccelKVM, Detail: r.Reason}
	switch {
	case err != nil:
		pr.Cost, pr.Fix = "no machine can run", "install qemu-system-x86 and see what it says on the lines above"
	case !pr.OK:
		pr.Cost = "software emulation: guests run several times slower"
		pr.Fix = "use a host whose /dev/kvm runs guests (bare metal, or nested virtualisation switched on)"
	}
	if r.Cached {
		pr.Detail += " (measured earlier in this boot)"
	}
	return pr
}
