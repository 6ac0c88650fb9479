package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/cgroup"
)

const pagemapBytes = 8 // one entry of /proc/PID/pagemap

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

// probeMemoryAccess asks whether another process's pages may be told apart and
// read, which live forks need. It can only be tried on a process of QEMU's
// user; here the rules of ptrace(2) are applied.
func (p Prober) probeMemoryAccess() vm.Probe {
	pr := vm.Probe{Name: MemoryAccess, Cost: "live forks take the slow way", Fix: "set kernel.yama.ptrace_scope=0 or give vmhost CAP_SYS_PTRACE"}
	f, err := os.Open("/proc/self/pagemap")
	if err == nil {
		_, err = f.ReadAt(make([]byte, pagemapBytes), 0)
		f.Close()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		pr.Detail = "pagemap: " + err.Error()
		return pr
	}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	switch {
	case hasCapability(unix.CAP_SYS_PTRACE):
		pr.Detail = "CAP_SYS_PTRACE"
	case p.User != nil && p.User.UID != uint32(os.Geteuid()):
		pr.Detail = "QEMU runs as another user and we lack CAP_SYS_PTRACE"
		return pr
	case err == nil && strings.TrimSpace(string(scope)) != "0":
		pr.Detail = "kernel.yama.ptrace_scope=" + strings.TrimSpace(string(scope)) + ": only until the daemon restarts"
		return pr
	default:
		pr.Detail = "same user, no yama restriction"
	}
	pr.OK, pr.Cost, pr.Fix = true, "", ""
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
