package api

import "time"

// Fork asks for children of a running, paused or suspended desktop. Every member
// may be absent.
type Fork struct {
	Count  int               `json:"count,omitempty" minimum:"1" maximum:"200" doc:"Children from one pause; default 1"`
	Name   string            `json:"name,omitempty" pattern:"^[a-z0-9]([a-z0-9-]{0,58}[a-z0-9])?$" doc:"Of the child; with count above 1 a prefix of name-1, name-2, …"`
	Labels map[string]string `json:"labels,omitempty" doc:"Default: the parent's"`
	Env    map[string]string `json:"env,omitempty" doc:"Added to the parent's"`
	Policy
}

// Policy says when a desktop ends or rests by itself. Zero: never.
type Policy struct {
	TTLS int `json:"ttl_s,omitempty" minimum:"0" maximum:"31536000" doc:"Seconds from its creation after which it is deleted; 0: never"`
	// IdleS counts while nothing is executed, no input comes, nobody watches and
	// the vCPUs are below IdleCPU.
	IdleS      int        `json:"idle_s,omitempty" minimum:"0" maximum:"31536000" doc:"Seconds of idleness after which idle_action is taken; 0: never"`
	IdleAction IdleAction `json:"idle_action,omitempty" enum:"pause,suspend,delete" doc:"Default suspend"`
	IdleCPU    int        `json:"idle_cpu,omitempty" minimum:"0" maximum:"100" doc:"Percent of one core below which the desktop counts as idle; default 10"`
}

// IdleAction is what happens to an idle desktop.
type IdleAction string

// Idle actions.
const (
	IdlePause   IdleAction = "pause"   // vCPUs stop; the next call lets them run
	IdleSuspend IdleAction = "suspend" // memory to disk, process gone
	IdleDelete  IdleAction = "delete"
)

// Origin says where the present incarnation of a desktop came from.
type Origin string

// Origins.
const (
	OriginCold     Origin = "cold"     // booted
	OriginTemplate Origin = "template" // cloned from the image's boot snapshot
	OriginPool     Origin = "pool"     // cloned in advance
	OriginFork     Origin = "fork"     // cloned from a running desktop
	OriginSnapshot Origin = "snapshot" // cloned from a named snapshot
	OriginResume   Origin = "resume"   // back from suspension
	OriginRestore  Origin = "restore"  // back in place to a named snapshot
)

// CreateSnapshot asks for a snapshot of a desktop.
type CreateSnapshot struct {
	Name string `json:"name" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Unique in the project"`
}

// Snapshot is a sealed desktop: memory, device state and disks of one instant.
type Snapshot struct {
	ID           string    `json:"id"`
	Name         string    `json:"name,omitempty" doc:"Empty for an image's boot snapshot"`
	Kind         string    `json:"kind" enum:"snapshot,boot,suspended"`
	Project      string    `json:"project,omitempty"`
	Desktop      string    `json:"desktop,omitempty" doc:"Whose instant it is"`
	ImageDigest  string    `json:"image_digest"`
	Template     string    `json:"template" doc:"The snapshot whose memory clones map; its own id when it is a template"`
	Shape        string    `json:"shape"`
	Display      Display   `json:"display"`
	Accelerator  string    `json:"accelerator"`
	Hypervisor   string    `json:"hypervisor" doc:"Name and version; device state loads on no other"`
	Digest       string    `json:"digest"`
	MemoryBytes  int64     `json:"memory_bytes" doc:"Beyond the template's"`
	StateBytes   int64     `json:"state_bytes"`
	DiskBytes    int64     `json:"disk_bytes" doc:"Beyond the disks below"`
	PauseMS      float64   `json:"pause_ms,omitempty" doc:"How long the desktop stood still for it"`
	Created      time.Time `json:"created"`
	UsedBy       int       `json:"used_by" doc:"Desktops that stand on it"`
	WorkspaceMiB int64     `json:"workspace_mib"`
	NotParked    string    `json:"not_parked,omitempty" doc:"Why the program that the image keeps ready is not in it; absent when it is, or there is none"`
	Fault        string    `json:"fault,omitempty" doc:"Why it cannot be cloned; absent when it can"`
}

// SnapshotList is a list, newest first.
type SnapshotList struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// ExportSnapshot asks to keep a snapshot in the blob store.
type ExportSnapshot struct {
	Name string `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Unique among the project's exports"`
}

// ImportSnapshot asks to keep an export as a snapshot.
type ImportSnapshot struct {
	Name string `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Unique in the project"`
}

// SnapshotExport is a snapshot in the blob store, with all that it stands on, except
// its image.
type SnapshotExport struct {
	Name        string    `json:"name"`
	Snapshot    string    `json:"snapshot,omitempty" doc:"The snapshot's name when it was exported"`
	ImageDigest string    `json:"image_digest"`
	Shape       string    `json:"shape"`
	Accelerator string    `json:"accelerator"`
	Hypervisor  string    `json:"hypervisor" doc:"Name and version; device state loads on no other"`
	Digest      string    `json:"digest" doc:"The snapshot's"`
	Bytes       int64     `json:"bytes" doc:"Compressed"`
	Created     time.Time `json:"created"`
	Fault       string    `json:"fault,omitempty" doc:"Why it cannot be read; absent when it can, as far as that is known before it is imported"`
}

// SnapshotExportList is a list, by name.
type SnapshotExportList struct {
	Exports []SnapshotExport `json:"exports"`
}

// Restore asks to put a desktop back to a snapshot of its own or another's
// instant.
type Restore struct {
	Snapshot string `json:"snapshot" minLength:"1" maxLength:"63" doc:"Name or id"`
}

// Node is one desktop or snapshot in the lineage.
type Node struct {
	Kind          string    `json:"kind" enum:"image,snapshot,desktop"`
	ID            string    `json:"id"`
	Name          string    `json:"name,omitempty"`
	Parent        string    `json:"parent,omitempty" doc:"Id of the node that it came from"`
	State         string    `json:"state,omitempty"`
	NotParked     string    `json:"not_parked,omitempty" doc:"Why the program that the image keeps ready is not in it; absent when it is, or there is none"`
	Gone          bool      `json:"gone,omitempty" doc:"Deleted; kept in the picture for what came from it"`
	Created       time.Time `json:"created"`
	MemoryPrivate int64     `json:"memory_private_bytes"`
	MemoryShared  int64     `json:"memory_shared_bytes" doc:"Size of the template whose pages it maps"`
	DiskPrivate   int64     `json:"disk_private_bytes"`
}

// Tree is the lineage of a project's desktops: parents before children.
type Tree struct {
	Nodes []Node `json:"nodes"`
}
