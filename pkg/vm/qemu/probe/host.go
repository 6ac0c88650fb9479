package probe

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/cgroup"
	"github.com/deskfork/deskfork/pkg/vm/qemu/pages"
)

// Host asks what the host lends to machines.
func (p Prober) Host() []vm.Probe {
	return []vm.Probe{p.probeCgroup(), p.probeMemoryAccess(), p.probeUser()}
}

func (p Prober) probeCgroup() vm.Probe {
	pr := vm.Probe{Name: Cgroup, Detail: "limits in " + p.CgroupRoot}
	if err := cgroup.Probe(p.CgroupRoot); err != nil {
		pr.Detail = err.Error()
		pr.Cost = "memory and CPU of a machine are bounded by its shape only, not by the kernel"
		pr.Fix = "run on a host with cgroup v2 controllers cpu, memory and pids, with Delegate=yes in the unit"
		return pr
	}
	pr.OK = true
	return pr
}

// probeMemoryAccess tries on a process of QEMU's user what live forks do: tell
// its pages apart, read and write them.
func (p Prober) probeMemoryAccess() vm.Probe {
	pr := vm.Probe{
		Name: MemoryAccess, OK: true, Detail: "memory of machines can be read, compared and written",
	}
	const cost = "snapshots and forks copy all of the memory through a migration stream: seconds instead of milliseconds"
	if err := pages.ProbeAs(&syscall.SysProcAttr{Credential: p.User.Credential()}); err != nil {
		pr.OK, pr.Detail, pr.Cost = false, err.Error(), cost
		pr.Fix = "give vmhost CAP_SYS_PTRACE, or set kernel.yama.ptrace_scope=0 and run QEMU as vmhost's own user"
		return pr
	}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	if s := strings.TrimSpace(string(scope)); err == nil && s != "0" && !hasCapability(unix.CAP_SYS_PTRACE) {
		pr.OK, pr.Detail = false, "kernel.yama.ptrace_scope="+s+": only machines that this daemon has started, not those of an earlier one"
		pr.Cost, pr.Fix = cost+", after a restart of the daemon", "set kernel.yama.ptrace_scope=0 or give vmhost CAP_SYS_PTRACE"
	}
	return pr
}

func hasCapability(c uint) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return false
	}
	return data[c/32].Effective&(1<<(c%32)) != 0
}

// probeUser asks whether QEMU loses our rights, and whether its user can reach
// its files.
func (p Prober) probeUser() vm.Probe {
	pr := vm.Probe{Name: User, OK: true}
	u := p.User
	switch {
	case u == nil && os.Geteuid() == 0:
		pr.OK, pr.Detail = false, "QEMU runs as root"
		pr.Cost, pr.Fix = "a guest that breaks out of QEMU is root", "add a system user for QEMU and name it in the configuration"
	case u == nil:
		pr.Detail = fmt.Sprintf("QEMU runs as our own user %d", os.Geteuid())
	case os.Geteuid() != 0:
		pr.OK, pr.Detail = false, fmt.Sprintf("we are user %d and cannot become %d", os.Geteuid(), u.UID)
		pr.Cost, pr.Fix = "machines cannot start", "start vmhost as root, or configure no user"
	default:
		pr.Detail = fmt.Sprintf("QEMU runs as user %d, group %d", u.UID, u.GID)
		for _, dir := range []string{p.DataDir, p.RuntimeDir} {
			if blocked := u.Unreachable(dir); blocked != "" {
				pr.OK, pr.Detail = false, fmt.Sprintf("user %d cannot pass through %s", u.UID, blocked)
				pr.Cost, pr.Fix = "machines cannot start", "chmod o+x "+blocked
			}
		}
	}
	return pr
}
