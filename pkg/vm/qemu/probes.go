package qemu

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/cgroup"
	"github.com/deskfork/deskfork/pkg/vm/qemu/owner"
)

const pagemapBytes = 8 // one entry of /proc/PID/pagemap

func (p *Provider) toolProbes(ctx context.Context, version string, err error) []vm.Probe {
	q := vm.Probe{Name: ProbeQEMU, OK: err == nil, Detail: "QEMU " + version + " at " + p.cfg.QEMU}
	if err != nil {
		q.Detail, q.Cost, q.Fix = err.Error(), "no machine can run", "apt-get install qemu-system-x86"
	}
	return []vm.Probe{
		q,
		probeProgram(ctx, ProbeQEMUImg, p.cfg.QEMUImg, "apt-get install qemu-utils", "--version"),
		probeProgram(ctx, ProbeMke2fs, p.cfg.Mke2fs, "apt-get install e2fsprogs", "-V"),
	}
}

func probeProgram(ctx context.Context, name, program, fix, versionFlag string) vm.Probe {
	path, err := exec.LookPath(program)
	out := ""
	if err == nil {
		out, err = output(ctx, path, versionFlag)
	}
	if err != nil {
		return vm.Probe{Name: name, Detail: err.Error(), Cost: "disks cannot be made", Fix: fix}
	}
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return vm.Probe{Name: name, OK: true, Detail: line}
}

// probeKVMDevice looks at the node; whether it runs guests is another probe's
// question.
func probeKVMDevice(u *User) vm.Probe {
	const dev = "/dev/kvm"
	pr := vm.Probe{Name: ProbeKVM, Cost: "no hardware acceleration"}
	var st unix.Stat_t
	if err := unix.Stat(dev, &st); err != nil {
		pr.Detail, pr.Fix = dev+": "+err.Error(), "load the module kvm_intel or kvm_amd, or switch virtualisation on in the firmware"
		return pr
	}
	pr.Detail = fmt.Sprintf("%s mode %04o owner %d:%d", dev, st.Mode&0o7777, st.Uid, st.Gid)
	who := u
	if who == nil {
		who = owner.Self()
	}
	if !who.May(st, 0o6) {
		pr.Fix = fmt.Sprintf("give user %d read and write access, e.g. by the group of %s", who.UID, dev)
		return pr
	}
	pr.OK, pr.Cost = true, ""
	return pr
}

// probeSandbox starts QEMU with the filter, without a machine, and lets it go
// at once by an end of its monitor.
func (p *Provider) probeSandbox(ctx context.Context) vm.Probe {
	pr := vm.Probe{Name: ProbeSandbox, Detail: "QEMU filters its own system calls"}
	out, err := output(ctx, p.cfg.QEMU, "-machine", "none", "-nodefaults", "-display", "none",
		"-sandbox", argv.Sandbox, "-device", "help")
	if err != nil {
		pr.Detail = strings.TrimSpace(err.Error() + ": " + lastLine(out))
		pr.Cost = "machines cannot start: a QEMU without seccomp is refused"
		pr.Fix = "use a QEMU built with libseccomp, on a kernel with seccomp"
		return pr
	}
	pr.OK = true
	return pr
}

func (p *Provider) probeNetdev(ctx context.Context) vm.Probe {
	pr := vm.Probe{Name: ProbeNetdev, Detail: "netdev dgram"}
	out, err := output(ctx, p.cfg.QEMU, "-machine", "none", "-netdev", "help")
	if err != nil || !slices.Contains(strings.Fields(out), "dgram") {
		pr.Detail = "netdev dgram is missing"
		pr.Cost, pr.Fix = "machines have no network", "use QEMU "+minimum+" or newer"
		return pr
	}
	pr.OK = true
	return pr
}

func (p *Provider) probeDevices(ctx context.Context) vm.Probe {
	pr := vm.Probe{Name: ProbeDevices}
	out, err := output(ctx, p.cfg.QEMU, "-machine", "none", "-device", "help")
	var missing []string
	for _, d := range []string{"virtio-vga", "virtio-tablet-pci", "virtio-keyboard-pci", "virtio-net-pci", "virtio-blk-pci", "virtio-rng-pci", "vmgenid"} {
		if !strings.Contains(out, `"`+d+`"`) {
			missing = append(missing, d)
		}
	}
	if err != nil || len(missing) > 0 {
		pr.Detail = "missing: " + strings.Join(missing, " ")
		pr.Cost, pr.Fix = "machines cannot start", "apt-get install qemu-system-common"
		return pr
	}
	pr.OK, pr.Detail = true, "all devices of a desktop are there"
	return pr
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

func (p *Provider) hostProbes() []vm.Probe {
	return []vm.Probe{p.probeCgroup(), probeMemory(), p.probeMemoryAccess(), p.probeUser()}
}

func (p *Provider) probeCgroup() vm.Probe {
	pr := vm.Probe{Name: ProbeCgroup, Detail: "limits in " + p.cfg.CgroupRoot}
	if err := cgroup.Probe(p.cfg.CgroupRoot); err != nil {
		pr.Detail = err.Error()
		pr.Cost = "memory and CPU of a machine are bounded by its shape only, not by the kernel"
		pr.Fix = "run on a host with cgroup v2 controllers cpu, memory and pids, with Delegate=yes in the unit"
		return pr
	}
	pr.OK = true
	return pr
}

// probeMemory wants room for the smallest shape.
func probeMemory() vm.Probe {
	pr := vm.Probe{Name: ProbeMemory}
	kib, err := memAvailable("/proc/meminfo")
	if err != nil {
		pr.Detail = err.Error()
		return pr
	}
	need := vm.Shapes()[0].MemoryMiB
	pr.OK = kib>>10 >= int64(need)
	pr.Detail = fmt.Sprintf("%d MiB available", kib>>10)
	if !pr.OK {
		pr.Cost = fmt.Sprintf("not even the smallest machine (%d MiB) fits", need)
		pr.Fix = "end what uses memory, or add some"
	}
	return pr
}

func memAvailable(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("read free memory: %w", err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		fields := strings.Fields(s.Text())
		if len(fields) >= 2 && fields[0] == "MemAvailable:" {
			return strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return 0, errors.New("read free memory: no MemAvailable line")
}

// probeMemoryAccess asks whether another process's pages may be told apart and
// read, which live forks need. It can only be tried on a process of QEMU's
// user; here the rules of ptrace(2) are applied.
func (p *Provider) probeMemoryAccess() vm.Probe {
	pr := vm.Probe{Name: ProbeMemoryAccess, Cost: "live forks take the slow way", Fix: "set kernel.yama.ptrace_scope=0 or give vmhost CAP_SYS_PTRACE"}
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
	case p.cfg.User != nil && p.cfg.User.UID != uint32(os.Geteuid()):
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
func (p *Provider) probeUser() vm.Probe {
	pr := vm.Probe{Name: ProbeUser, OK: true}
	u := p.cfg.User
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
		for _, dir := range []string{p.cfg.DataDir, p.cfg.RuntimeDir} {
			if blocked := u.Unreachable(dir); blocked != "" {
				pr.OK, pr.Detail = false, fmt.Sprintf("user %d cannot pass through %s", u.UID, blocked)
				pr.Cost, pr.Fix = "machines cannot start", "chmod o+x "+blocked
			}
		}
	}
	return pr
}
