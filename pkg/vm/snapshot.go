package vm

import (
	"context"
	"io"
	"time"
)

// SnapshotID names a snapshot within a provider. The form is that of ID.
type SnapshotID string

// Validate reports whether s may name a snapshot.
func (s SnapshotID) Validate() error { return validName("snapshot id", string(s)) }

// HostClass is what a host must have in common with the one that sealed a
// snapshot: device state loads nowhere else.
type HostClass struct {
	Provider    string      `json:"provider"`
	Version     string      `json:"version"` // of the hypervisor
	Machine     string      `json:"machine"` // machine type
	CPU         string      `json:"cpu"`     // CPU model
	Accelerator Accelerator `json:"accelerator"`
}

// Snapshot is sealed memory, device state and disks of a machine at one instant.
// Nothing of it changes any more.
type Snapshot struct {
	ID SnapshotID `json:"id"`
	// Template is the snapshot whose memory clones of this one map; its own id
	// when it holds all of its memory, which makes it a template itself.
	Template SnapshotID  `json:"template"`
	Host     HostClass   `json:"host"`
	Shape    Shape       `json:"shape"`
	Network  NetworkMode `json:"network"` // of the machine that was sealed
	Width    int         `json:"width"`   // pixels of the first screen, of the device model
	Height   int         `json:"height"`
	// SystemMiB and WorkspaceMiB are the virtual sizes of the disks.
	SystemMiB    int64     `json:"system_mib"`
	WorkspaceMiB int64     `json:"workspace_mib"`
	Created      time.Time `json:"created"`
	// MemoryBytes, StateBytes and DiskBytes are what it holds beyond its
	// template, its disks' bases and its image.
	MemoryBytes int64 `json:"memory_bytes"`
	StateBytes  int64 `json:"state_bytes"`
	DiskBytes   int64 `json:"disk_bytes"`
	// Digest is over everything that a clone reads, hex SHA-256; empty while a
	// snapshot that is not kept has not been hashed.
	Digest string `json:"digest"`
	// Kept says that it was synced and outlives the host's crash.
	Kept bool `json:"kept"`
}

// SnapshotSpec asks for a snapshot.
type SnapshotSpec struct {
	ID SnapshotID
	// Keep syncs and digests it before the call returns. Without it the snapshot
	// is meant for clones of this moment, and Recover removes it.
	Keep bool
}

// Sealed is the result of sealing.
type Sealed struct {
	Snapshot

	// Pause is how long the machine's vCPUs stood still for it.
	Pause time.Duration
	// Slow says, when it is not empty, why the memory went through a migration
	// stream instead of the changed pages alone.
	Slow string
}

// CloneSpec is everything a provider needs to start a machine from a snapshot.
type CloneSpec struct {
	ID          ID
	Incarnation Incarnation
	Snapshot    SnapshotID
	Network     NetworkMode
	// Workspace, when its SizeMiB is not 0, is a fresh disk in place of the
	// snapshot's own; the guest must never have read that one.
	Workspace Disk
	// GuestConfig as in Spec. What guestd has in memory is the sealed machine's.
	GuestConfig []byte
	// Paused leaves the vCPUs stopped after the load.
	Paused bool
}

// Prepared is a hypervisor process that waits for its state.
type Prepared interface {
	// Start loads the state and hands the machine out. Called once.
	Start(ctx context.Context) (Machine, error)
	// Discard ends the process and removes what it owned. Idempotent; after
	// Start it does nothing.
	Discard(ctx context.Context) error
}

// Snapshotter is an ability of a Provider: sealing and cloning.
type Snapshotter interface {
	// Snapshot seals the present instant of m, running or paused; m goes on as it
	// was. When it fails nothing is left of the snapshot, and m goes on.
	Snapshot(ctx context.Context, m Machine, spec SnapshotSpec) (Sealed, error)
	// Clone starts a machine from a snapshot: Prepare and Start in one.
	Clone(ctx context.Context, spec CloneSpec) (Machine, error)
	// Prepare does what of Clone needs no time of a waiting caller.
	Prepare(ctx context.Context, spec CloneSpec) (Prepared, error)
	// Snapshots lists what is whole, in no order.
	Snapshots(ctx context.Context) ([]Snapshot, error)
	// RemoveSnapshot takes id out of the list at once. Its files go when no
	// machine and no other snapshot needs them any more. Idempotent.
	RemoveSnapshot(ctx context.Context, id SnapshotID) error
}

// Porter is an ability of a Provider: snapshots as one stream of bytes.
type Porter interface {
	// Export writes a snapshot with all that it stands on except its image.
	Export(ctx context.Context, id SnapshotID, w io.Writer) error
	// Import reads what Export wrote, verifies it and keeps it as id. system is
	// the image's disk, which is not part of the stream.
	Import(ctx context.Context, id SnapshotID, system Disk, r io.Reader) (Snapshot, error)
}

// Kept is what is on disk of a snapshot.
type Kept struct {
	Snapshot SnapshotID
	// Listed says that it can be cloned. What is not has been removed, or was made
	// for clones of one moment, and is there for the machines and snapshots that
	// need parts of it.
	Listed bool
	// MemoryBytes (with the state of devices) and DiskBytes are allocated.
	MemoryBytes int64
	DiskBytes   int64
}

// Keeper is an ability of a Provider that says what its sealed parts take.
type Keeper interface {
	// Kept lists every snapshot of which something is on disk, in no order.
	Kept(ctx context.Context) ([]Kept, error)
}

// Pauser is an ability of a Machine.
type Pauser interface {
	// Pause stops the vCPUs. Idempotent.
	Pause(ctx context.Context) error
	// Resume lets them run. Idempotent.
	Resume(ctx context.Context) error
}
