// Package probe examines a host for the provider: which programs there are and
// what they can do, and what the host lends to machines. Each finding is a
// vm.Probe that says what an absence costs and how to mend it.
package probe

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/accel"
	"github.com/deskfork/deskfork/pkg/vm/qemu/owner"
)

// Names of the probes, in order.
const (
	QEMU         = "qemu"
	QEMUImg      = "qemu-img"
	Mke2fs       = "mke2fs"
	KVM          = "kvm-device"
	Accelerator  = "accelerator"
	Sandbox      = "sandbox"
	Netdev       = "dgram-netdev"
	Devices      = "devices"
	Cgroup       = "cgroup-v2"
	MemoryAccess = "memory-access"
	User         = "user-drop"
)

// Prober is what is examined.
type Prober struct {
	QEMU, QEMUImg, Mke2fs string      // programs
	DataDir, RuntimeDir   string      // what QEMU's user has to reach
	CgroupRoot            string      // may be empty
	User                  *owner.User // whom QEMU runs as; nil is our own
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

// Version asks a QEMU for its version; one that is too old is an error.
func Version(ctx context.Context, program string) (string, error) {
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

// Capabilities examines everything. want is the accelerator asked for, a how it is
// probed, without the version. It is an error when no machine could run at all;
// the probes come with it even then.
func (p Prober) Capabilities(ctx context.Context, want vm.Accelerator, a accel.Config) (vm.Capabilities, error) {
	var c vm.Capabilities
	version, err := Version(ctx, p.QEMU)
	if err != nil {
		c.Limits = append(p.Tools(ctx, "", err), p.Host()...) //nolint:contextcheck // quick, and cut short by nothing
		return c, err
	}
	c.Version, a.Version = version, version
	c.Limits = append(p.Tools(ctx, version, nil), p.KVMDevice())
	r, err := accel.New(a).Resolve(ctx, want)
	c.Accelerator, c.AcceleratorReason = r.Accelerator, r.Reason
	c.Limits = append(c.Limits, Accelerated(r, err))
	c.Limits = slices.Concat(c.Limits, p.Features(ctx), p.Host()) //nolint:contextcheck // quick, and cut short by nothing
	return c, err
}

// Find finds a program in PATH or where an ordinary user's PATH does not look,
// unless it is configured; when it is nowhere its name is kept and starting it
// says so.
func Find(configured, name string) string {
	if configured != "" {
		return configured
	}
	for _, candidate := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	return name
}

// shut says that /dev/kvm was not opened: what it would run nobody knows.
func shut(r accel.Result) bool {
	return slices.ContainsFunc(r.Outcomes, func(o accel.Outcome) bool {
		return o.Accelerator == vm.AccelKVM && strings.Contains(o.Detail, "Permission denied") // QEMU's words
	})
}

// Accelerated says what the accelerator probe found.
func Accelerated(r accel.Result, err error) vm.Probe {
	pr := vm.Probe{Name: Accelerator, OK: err == nil && r.Accelerator == vm.AccelKVM, Detail: r.Reason}
	switch {
	case err != nil:
		pr.Cost, pr.Fix = "no machine can run", "install qemu-system-x86 and see what it says on the lines above"
	case !pr.OK:
		pr.Cost = "software emulation: guests run several times slower"
		pr.Fix = "use a host whose /dev/kvm runs guests (bare metal, or nested virtualisation switched on)"
		if shut(r) {
			pr.Fix = "give the user read and write access to /dev/kvm, e.g. by its group; log in anew and start vmhost again"
		}
	}
	if r.Cached {
		pr.Detail += " (measured earlier in this boot)"
	}
	return pr
}
