// Package argv turns a machine into QEMU's command line: a pure function, so
// that the whole device model can be read in its golden files.
//
// Rules it keeps: every device has a fixed PCI address and a fixed id, so that
// a clone can be given the same set; every block node has a name that ends in
// a number, so that overlays can follow (system0, system1, …); nothing that
// cannot be migrated (-only-migratable); nothing that QEMU would add by itself
// (-nodefaults, -no-user-config).
package argv

import (
	"fmt"
	"strings"

	"github.com/deskfork/deskfork/pkg/vm"
)

// The parts of the device model that a clone must match exactly.
const (
	MachineType = "q35"
	// CPUModel is named and versioned rather than "host" or "max", so that
	// device state loads on another host, and has SSE4.2 (x86-64-v2), which
	// browsers want; both accelerators offer all of it. rdrand gives programs in
	// clones of one memory randomness that differs without asking the kernel.
	CPUModel = "Nehalem-v1,+rdrand"
)

// Sandbox is QEMU's system call filter. With spawn=deny an exec: migration kills
// QEMU: pass descriptors.
const Sandbox = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"

// Ids and node names that later commands refer to.
const (
	RAMID         = "ram0"
	NetID         = "net0"
	SystemID      = "system"
	WorkspaceID   = "workspace"
	SystemNode    = SystemID + "0"
	WorkspaceNode = WorkspaceID + "0"
	DisplayID     = "video0"
	ConfigName    = "opt/deskfork/config"
)

// tbShare is which part of a machine's memory TCG's cache of translated code may
// have: private memory, of which a machine takes what it has run. Where the cache
// is too small, a program like a browser throws its own code out again and again: to
// open a page in a clone of 2 GiB took 39 s of CPU with 64 MiB, 31 s with 128, 25 s
// with 256 and 18 s with 512, which then held 490 MiB of code.
const tbShare = 8

// Machine is what differs from one command line to the next.
type Machine struct {
	Name        string // shown in the process list
	UUID        string // identity: must stand on no other process's command line
	Accelerator vm.Accelerator
	TBSizeMiB   int // translated code under TCG. 0: an eighth of the memory
	Shape       vm.Shape
	RAM         string // file behind the guest's memory; it is read and never written
	Boot        vm.Boot
	System      Drive
	Workspace   Drive
	Width       int
	Height      int
	Net         *Net   // nil: no network device at all
	Config      string // file with guestd's configuration; empty: none
	QMP         string // socket paths
	VNC         string
	Serial      string // log file
	Sandbox     bool   // seccomp filter; off only where QEMU was built without it
	// Incoming makes QEMU wait for the state of another machine, and stand still
	// once it has that.
	Incoming bool
}

// Drive is a qcow2 file.
type Drive struct {
	Path string
	// Volatile ignores the guest's flushes: for disks that nobody reads again
	// after the host itself has crashed.
	Volatile bool
}

// Net is a datagram link over two unix sockets.
type Net struct {
	Local  string // QEMU binds this
	Remote string // and writes to this
	MAC    string
}

// PCI slots on the root bus. 0 is the host bridge, 31 the chipset's.
const (
	slotNet       = 2
	slotVideo     = 3
	slotTablet    = 4
	slotKeyboard  = 5
	slotRNG       = 6
	slotSystem    = 7
	slotWorkspace = 8
)

// paddingName takes the place that a kernel's loader has among the firmware's
// files. A guest remembers files by their place: in a clone that is given no
// kernel, since its guest has loaded it, the configuration must have the place it had in the machine that was
// booted. They are sorted by name, so it comes before ConfigName.
const paddingName = "opt/deskfork/aligned"

// Build returns the arguments, without the program's name.
func Build(m Machine) []string {
	var a args
	a.add("-name", "guest="+esc(m.Name)+",debug-threads=on")
	a.add("-uuid", m.UUID)
	a.add("-no-user-config", "-nodefaults")
	a.platform(m)
	a.add("-only-migratable")
	// One form for all states: device state saved without memory has no
	// configuration section, and a host class is compared instead.
	a.add("-global", "migration.send-configuration=off")
	if m.Incoming {
		a.add("-incoming", "defer", "-S")
	}
	if m.Sandbox {
		a.add("-sandbox", Sandbox)
	}
	a.add("-qmp", "unix:"+esc(m.QMP)+",server=on,wait=off")
	a.add("-monitor", "none")
	a.add("-chardev", "file,id=serial0,append=on,path="+esc(m.Serial), "-serial", "chardev:serial0")
	a.boot(m)
	a.screen(m)
	a.add("-object", "rng-random,id=rng0,filename=/dev/urandom")
	a.device("virtio-rng-pci,id=entropy0,rng=rng0", slotRNG)
	a.add("-device", "vmgenid,id=generation0,guid=auto")
	a.net(m.Net)
	a.drive(SystemNode, SystemID, m.System, slotSystem)
	a.drive(WorkspaceNode, WorkspaceID, m.Workspace, slotWorkspace)
	a.add("-msg", "timestamp=on")
	return a
}

type args []string

func (a *args) add(s ...string) { *a = append(*a, s...) }

func (a *args) device(spec string, slot int) {
	a.add("-device", fmt.Sprintf("%s,bus=pcie.0,addr=0x%x", spec, slot))
}

func (a *args) platform(m Machine) {
	a.add("-machine", MachineType+",memory-backend="+RAMID+",mem-merge=off,vmport=off,smm=off,usb=off,suppress-vmdesc=on")
	// Not shared: every page that the guest changes is private to the process,
	// and those are the set that a fork copies.
	a.add("-object", fmt.Sprintf("memory-backend-file,id=%s,size=%dM,mem-path=%s,share=off,prealloc=off,dump=off,merge=off",
		RAMID, m.Shape.MemoryMiB, esc(m.RAM)))
	a.add("-m", fmt.Sprintf("%dM", m.Shape.MemoryMiB))
	a.add("-smp", fmt.Sprintf("%d,sockets=1,cores=%d,threads=1", m.Shape.VCPUs, m.Shape.VCPUs))
	a.add("-cpu", CPUModel)
	if m.Accelerator == vm.AccelKVM {
		a.add("-accel", "kvm")
		return
	}
	tb := m.TBSizeMiB
	if tb <= 0 {
		tb = min(max(m.Shape.MemoryMiB/tbShare, 32), 1024)
	}
	a.add("-accel", fmt.Sprintf("tcg,thread=multi,tb-size=%d", tb))
}

func (a *args) boot(m Machine) {
	// A guest that ends by itself stays, stopped, until its end was seen: the
	// cause is not lost when nobody listened at that moment.
	a.add("-action", "reboot=shutdown,shutdown=pause,panic=pause")
	a.add("-rtc", "base=utc,clock=host,driftfix=slew")
	if m.Boot.Kernel != "" {
		a.add("-kernel", m.Boot.Kernel)
	} else if m.Config != "" {
		a.add("-fw_cfg", "name="+paddingName+",string=-")
	}
	if m.Boot.Initrd != "" {
		a.add("-initrd", m.Boot.Initrd)
	}
	if m.Boot.Cmdline != "" {
		a.add("-append", m.Boot.Cmdline)
	}
	if m.Config != "" {
		a.add("-fw_cfg", "name="+ConfigName+",file="+esc(m.Config))
	}
}

func (a *args) screen(m Machine) {
	a.add("-display", "none")
	// One millisecond between key events instead of ten: pacing is the input
	// path's business.
	a.add("-vnc", "unix:"+esc(m.VNC)+",share=force-shared,power-control=off,lock-key-sync=off,key-delay-ms=1")
	a.device(fmt.Sprintf("virtio-vga,id=%s,xres=%d,yres=%d,max_outputs=1,edid=on", DisplayID, m.Width, m.Height), slotVideo)
	a.device("virtio-tablet-pci,id=tablet0", slotTablet)
	a.device("virtio-keyboard-pci,id=keyboard0", slotKeyboard)
}

func (a *args) net(n *Net) {
	if n == nil {
		a.add("-nic", "none")
		return
	}
	a.add("-netdev", fmt.Sprintf("dgram,id=%s,local.type=unix,local.path=%s,remote.type=unix,remote.path=%s",
		NetID, esc(n.Local), esc(n.Remote)))
	a.device(fmt.Sprintf("virtio-net-pci,id=nic0,netdev=%s,mac=%s,host_mtu=%d,romfile=", NetID, n.MAC, vm.NetworkMTU), slotNet)
}

func (a *args) drive(node, serial string, d Drive, slot int) {
	flush := "off"
	if d.Volatile {
		flush = "on"
	}
	a.add("-blockdev", fmt.Sprintf("driver=file,node-name=%s-file,filename=%s,discard=unmap,cache.no-flush=%s", node, esc(d.Path), flush))
	a.add("-blockdev", fmt.Sprintf("driver=qcow2,node-name=%s,file=%s-file,discard=unmap,detect-zeroes=unmap,cache.no-flush=%s", node, node, flush))
	// A full host disk is an I/O error for the guest rather than a machine that
	// stands still without a word.
	a.device(fmt.Sprintf("virtio-blk-pci,id=%s,drive=%s,serial=%s,werror=report,rerror=report,write-cache=on", serial, node, serial), slot)
}

// esc doubles commas, as QEMU's option parser wants.
func esc(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// Value returns what follows the option name, e.g. "-uuid"; for reading a
// command line back.
func Value(args []string, option string) (string, bool) {
	for i, a := range args {
		if a == option && i+1 < len(args) {
			return args[i+1], true
		}
	}
	return "", false
}
