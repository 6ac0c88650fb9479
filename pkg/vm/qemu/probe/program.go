package probe

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu/argv"
	"github.com/deskfork/deskfork/pkg/vm/qemu/owner"
)

// Tools asks for the programs that run and make machines. version and err are
// what Version said.
func (p Prober) Tools(ctx context.Context, version string, err error) []vm.Probe {
	q := vm.Probe{Name: QEMU, OK: err == nil, Detail: "QEMU " + version + " at " + p.QEMU}
	if err != nil {
		q.Detail, q.Cost, q.Fix = err.Error(), "no machine can run", "apt-get install qemu-system-x86"
	}
	return []vm.Probe{
		q,
		probeProgram(ctx, QEMUImg, p.QEMUImg, "apt-get install qemu-utils", "--version"),
		probeProgram(ctx, Mke2fs, p.Mke2fs, "apt-get install e2fsprogs", "-V"),
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

// KVMDevice looks at the node; whether it runs guests is another probe's
// question.
func (p Prober) KVMDevice() vm.Probe {
	const dev = "/dev/kvm"
	pr := vm.Probe{Name: KVM, Cost: "no hardware acceleration"}
	var st unix.Stat_t
	if err := unix.Stat(dev, &st); err != nil {
		pr.Detail, pr.Fix = dev+": "+err.Error(), "load the module kvm_intel or kvm_amd, or switch virtualisation on in the firmware"
		return pr
	}
	pr.Detail = fmt.Sprintf("%s mode %04o owner %d:%d", dev, st.Mode&0o7777, st.Uid, st.Gid)
	who := p.User
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

// Features asks what QEMU can do.
func (p Prober) Features(ctx context.Context) []vm.Probe {
	return []vm.Probe{p.probeSandbox(ctx), p.probeNetdev(ctx), p.probeDevices(ctx)}
}

// probeSandbox starts QEMU with the filter, without a machine, and lets it go
// at once by an end of its monitor.
func (p Prober) probeSandbox(ctx context.Context) vm.Probe {
	pr := vm.Probe{Name: Sandbox, Detail: "QEMU filters its own system calls"}
	out, err := output(ctx, p.QEMU, "-machine", "none", "-nodefaults", "-display", "none",
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

func (p Prober) probeNetdev(ctx context.Context) vm.Probe {
	pr := vm.Probe{Name: Netdev, Detail: "netdev dgram"}
	out, err := output(ctx, p.QEMU, "-machine", "none", "-netdev", "help")
	if err != nil || !slices.Contains(strings.Fields(out), "dgram") {
		pr.Detail = "netdev dgram is missing"
		pr.Cost, pr.Fix = "machines have no network", "use QEMU "+minimum+" or newer"
		return pr
	}
	pr.OK = true
	return pr
}

func (p Prober) probeDevices(ctx context.Context) vm.Probe {
	pr := vm.Probe{Name: Devices}
	out, err := output(ctx, p.QEMU, "-machine", "none", "-device", "help")
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
