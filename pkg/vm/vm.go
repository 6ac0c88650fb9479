// Package vm names what a virtual machine is to Deskfork and what a provider
// of machines owes its caller. It depends on the standard library alone;
// adapters (qemu, later libvirt and lume) live in child packages.
package vm

import (
	"context"
	"net"
	"time"
)

// ID names a desktop: 1 to 12 characters of [a-z0-9], starting with a letter.
type ID string

// Incarnation names one run of a desktop's VM process. It is never reused,
// not even after the desktop is gone.
type Incarnation string

// Shape is the fixed size of a machine. A clone has its template's shape.
type Shape struct {
	Name      string // small, medium, large
	VCPUs     int
	MemoryMiB int
}

// NetworkMode says what a guest may reach besides the link to its host.
type NetworkMode string

// Network modes.
const (
	NetworkOpen NetworkMode = "open" // egress under the host's policy, with DNS
	NetworkNone NetworkMode = "none" // no egress; the link to guestd stays
)

// Accelerator is how the vCPUs run.
type Accelerator string

// Accelerators.
const (
	AccelAuto Accelerator = "auto" // the best one that was proven to run
	AccelKVM  Accelerator = "kvm"
	AccelTCG  Accelerator = "tcg"
)

// TimeoutScale is the factor by which deadlines for guests stretch under an
// accelerator: software emulation is about eight times slower than hardware.
func (a Accelerator) TimeoutScale() int {
	if a == AccelKVM {
		return 1
	}
	return 8
}

// Spec is everything a provider needs to start a machine cold. It holds no
// defaults: the host fills it.
type Spec struct {
	ID          ID
	Incarnation Incarnation
	Shape       Shape
	Boot        Boot
	System      Disk // the bootable disk, /dev/vda
	Workspace   Disk // /workspace, /dev/vdb
	Width       int  // pixels of the first screen
	Height      int
	Network     NetworkMode
	// GuestConfig is handed to guestd at boot (fw_cfg under QEMU) and to nobody
	// else: it holds the link's token.
	GuestConfig []byte
}

// Boot is a direct kernel boot.
type Boot struct {
	Kernel  string `json:"kernel"`           // file path
	Initrd  string `json:"initrd,omitempty"` // file path, may be empty
	Cmdline string `json:"cmdline,omitempty"`
}

// Disk is a writable disk made for this incarnation.
type Disk struct {
	// Base is an immutable image below the new overlay; empty for a fresh disk.
	Base       string
	BaseFormat string // raw or qcow2; required with Base
	SizeMiB    int64  // virtual size; 0 with Base: that of the base
	Label      string // file system label when the disk is fresh and to be formatted ext4
	// Source is a raw file of SizeMiB whose content a fresh disk begins with; it
	// is read while the machine is made. Not with Base or Label.
	Source string
	// Filled: Source is no raw file but one of the provider's Filler. It becomes the
	// machine's, also of one that then cannot be made: it is gone.
	Filled bool
}

// State is the coarse state of a machine's process.
type State string

// States.
const (
	StateRunning State = "running"
	StatePaused  State = "paused"
	StateExited  State = "exited"
)

// Info describes a machine at one instant.
type Info struct {
	ID          ID
	Incarnation Incarnation
	State       State
	Accelerator Accelerator
	Shape       Shape
	Network     NetworkMode
	PID         int // 0 where the provider has no local process
	Started     time.Time
	Adopted     bool   // found running after a restart of the daemon
	Dir         string // where serial.log and qemu.log lie
	MemoryBytes int64  // private memory held by the process now; 0 when it has none
	DiskBytes   int64  // allocated by the incarnation's own files now
	// EgressBytes is what the guest has sent to the world since this process looks
	// after its network; 0 when it has none any more, or where nobody counts.
	EgressBytes int64
	// CPUTime is what the process has taken of the host's cores so far; 0 where
	// it is not known.
	CPUTime time.Duration
	// Snapshot is what the machine was cloned from; empty after a cold boot.
	// Template is the snapshot whose memory it maps.
	Snapshot SnapshotID
	Template SnapshotID
}

// Machine is one incarnation. Its methods may be called from any goroutine.
// Every call honours ctx and has a deadline of its own.
type Machine interface {
	// Info never blocks on the guest.
	Info() Info
	// Done is closed when the process has ended, by whatever cause.
	Done() <-chan struct{}
	// Err says, after Done, why: nil after Stop or Destroy, ErrGuestShutdown
	// when the guest switched itself off, else an *ExitError.
	Err() error
	// DialGuest opens a TCP connection to a port of the guest over its
	// private network.
	DialGuest(ctx context.Context, port int) (net.Conn, error)
	// DialDisplay opens a connection that speaks RFB.
	DialDisplay(ctx context.Context) (net.Conn, error)
	// Stop asks the guest to power off, then ends the process by force when
	// grace has passed. Disks stay. Idempotent.
	Stop(ctx context.Context, grace time.Duration) error
	// Destroy ends the process by force and removes all that the incarnation
	// owned: disks, sockets, cgroup, journal. Idempotent; after an error it
	// may be called again.
	Destroy(ctx context.Context) error
}

// Provider starts machines and finds them again.
type Provider interface {
	// Create starts a machine; when it fails nothing is left behind, and the
	// error is a *StageError around the cause. ErrExists when the incarnation
	// is known already, ErrInvalid when the spec makes no sense.
	Create(ctx context.Context, spec Spec) (Machine, error)
	// Recover is called once, before Create: it proves the identity of every
	// machine in the journal, adopts those that run and removes what is left
	// of the others. It returns the adopted ones, beside ErrLeftover when
	// something could not be removed; with any other error it found nothing out.
	Recover(ctx context.Context) ([]Machine, error)
	// Capabilities probes once and then answers from memory.
	Capabilities(ctx context.Context) (Capabilities, error)
}

// Capabilities is what a provider found on this host.
type Capabilities struct {
	Provider    string      // qemu
	Version     string      // of the hypervisor
	Accelerator Accelerator // the proven one
	// AcceleratorReason says why, e.g. which probe of a better one failed.
	AcceleratorReason string
	Limits            []Probe // what was probed, in order
}

// Probe is one line of a provider's self-examination.
type Probe struct {
	Name   string // stable, kebab-case
	OK     bool
	Detail string // what was found
	Cost   string // what its absence costs; empty when OK
	Fix    string // what to do about it; empty when OK
}
