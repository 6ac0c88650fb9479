package api

import "time"

// Display is the geometry of a screen.
type Display struct {
	Width  int `json:"width" minimum:"320" maximum:"7680" doc:"Pixels"`
	Height int `json:"height" minimum:"200" maximum:"4320" doc:"Pixels"`
}

// CreateDesktop asks for a new desktop. Either Image or Snapshot is given; every
// other member may be absent.
type CreateDesktop struct {
	Image     string            `json:"image,omitempty" maxLength:"200" doc:"Image name, name:tag or digest"`
	Snapshot  string            `json:"snapshot,omitempty" maxLength:"63" doc:"Name or id of a snapshot to clone"`
	Cold      bool              `json:"cold,omitempty" doc:"Boot rather than clone the image's boot snapshot"`
	Name      string            `json:"name,omitempty" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Unique in the project; made up when absent"`
	Shape     string            `json:"shape,omitempty" enum:"small,medium,large" doc:"Default medium"`
	Labels    map[string]string `json:"labels,omitempty"`
	Env       map[string]string `json:"env,omitempty" doc:"Default environment of execs and launched programs"`
	Display   *Display          `json:"display,omitempty" doc:"Default: the image's"`
	Keyboard  string            `json:"keyboard,omitempty" pattern:"^[a-z]{2,10}(:[a-z0-9_-]{1,32})?$" doc:"XKB layout, or layout:variant; default us"`
	Network   string            `json:"network,omitempty" enum:"open,none" doc:"Egress; default open"`
	Workspace string            `json:"workspace,omitempty" maxLength:"200" doc:"Workspace to begin with, or workspace@checkpoint; its disk keeps its size"`
	// WorkspaceMiB is the size of /workspace.
	WorkspaceMiB int64 `json:"workspace_mib,omitempty" minimum:"64" maximum:"1048576" doc:"Size of /workspace in MiB; default 10240, allocated as it fills"`
	Policy
}

// DesktopState is where a desktop stands.
type DesktopState string

// States of a desktop.
const (
	StateStarting DesktopState = "starting" // not every readiness stage is reached
	StateReady    DesktopState = "ready"    // drawn, and guestd answers
	StateFailed   DesktopState = "failed"   // a stage failed; see Failure
	StateStopped  DesktopState = "stopped"  // the guest switched itself off
	StateDeleting DesktopState = "deleting"
	// StatePaused has its vCPUs stopped; StateSuspended has no process, its
	// memory lies on disk.
	StatePaused    DesktopState = "paused"
	StateSuspended DesktopState = "suspended"
)

// Stage names a step of becoming ready, in this order.
type Stage string

// Readiness stages.
const (
	StageAdmission Stage = "admission" // it fits into memory and disk
	StageMachine   Stage = "machine"   // disks made, the hypervisor runs
	StageLink      Stage = "link"      // guestd answered
	StageHandshake Stage = "handshake" // clock, entropy, /workspace, environment
	StageSession   Stage = "session"   // the helper in the X session answered; display size and layout set
	StageDrawn     Stage = "drawn"     // windows of the desktop are on a screen that is not blank and still
)

// StageTime says when a stage was reached.
type StageTime struct {
	Stage   Stage     `json:"stage"`
	Reached time.Time `json:"reached"`
	TookMS  int64     `json:"took_ms" doc:"Since the stage before"`
}

// Desktop is one virtual machine with a screen.
type Desktop struct {
	ID            string            `json:"id"`
	Name          string            `json:"name"`
	Project       string            `json:"project"`
	Image         string            `json:"image" doc:"As asked for"`
	ImageDigest   string            `json:"image_digest"`
	Shape         string            `json:"shape"`
	Labels        map[string]string `json:"labels,omitempty"`
	Env           map[string]string `json:"env,omitempty"`
	Display       Display           `json:"display"`
	Keyboard      string            `json:"keyboard"`
	Network       string            `json:"network"`
	WorkspaceMiB  int64             `json:"workspace_mib"`
	State         DesktopState      `json:"state"`
	Waiting       string            `json:"waiting,omitempty" doc:"What its start waits for, while that takes long"`
	Stages        []StageTime       `json:"stages"`
	Failure       *Error            `json:"failure,omitempty"`
	Incarnation   string            `json:"incarnation"`
	Accelerator   string            `json:"accelerator,omitempty" doc:"kvm or tcg"`
	Origin        Origin            `json:"origin,omitempty" doc:"Where the present incarnation came from"`
	OriginReason  string            `json:"origin_reason,omitempty" doc:"Why it was booted although clones are quicker"`
	NotParked     string            `json:"not_parked,omitempty" doc:"Why the program that the image keeps ready was not in what it was cloned from; absent when it was, or there is none"`
	Parent        string            `json:"parent,omitempty" doc:"Id of the desktop that it was forked from"`
	Snapshot      string            `json:"snapshot,omitempty" doc:"Id of the snapshot that it stands on"`
	CameFrom      string            `json:"came_from,omitempty" doc:"Id of the snapshot that it was made of, when it was put back to another one since"`
	Expires       time.Time         `json:"expires,omitzero" doc:"When its time to live ends"`
	Policy        Policy            `json:"policy,omitzero"`
	ControlPolicy ControlPolicy     `json:"control_policy,omitzero"`
	Created       time.Time         `json:"created"`
	Started       time.Time         `json:"started,omitzero"`
	Adopted       bool              `json:"adopted,omitempty" doc:"Found running after a restart of the daemon"`
	MemoryPrivate int64             `json:"memory_private_bytes,omitempty"`
	DiskPrivate   int64             `json:"disk_private_bytes,omitempty"`
	CPUSeconds    float64           `json:"cpu_seconds,omitempty" doc:"What its present process has taken of the host's cores so far"`
	InControl     *InControl        `json:"in_control,omitempty" doc:"Who has the control lease; absent: nobody"`
}

// DesktopList is a list, newest first.
type DesktopList struct {
	Desktops []Desktop `json:"desktops"`
}

// Event is one thing that happened. SSE: id is Seq, event is Type.
type Event struct {
	Seq     uint64         `json:"seq"`
	Time    time.Time      `json:"time"`
	Type    string         `json:"type"` // desktop.created, desktop.stage, desktop.ready, desktop.failed, desktop.stopped, desktop.deleted, exec.started, exec.ended, …
	Desktop string         `json:"desktop,omitempty"`
	Data    map[string]any `json:"data,omitempty"`
}

// Image describes a stored image.
type Image struct {
	Digest  string    `json:"digest"`
	Name    string    `json:"name"`
	Tags    []string  `json:"tags"`
	Created time.Time `json:"created"`
	Size    int64     `json:"size_bytes" doc:"Allocated on disk"`
	Virtual int64     `json:"virtual_bytes" doc:"Of the disk inside"`
	OS      string    `json:"os"`
	Recipe  string    `json:"recipe_digest,omitempty"`
	InUse   int       `json:"in_use" doc:"Desktops that have it"`
}

// SealImage asks for the boot snapshot of an image, which its desktops are
// cloned from. Every member may be absent.
type SealImage struct {
	Shape string `json:"shape,omitempty" enum:"small,medium,large" doc:"Default medium"`
	Again bool   `json:"again,omitempty" doc:"Make another one, although there is one; it takes the place of the old one when it is sealed"`
}

// ImageList is a list of images.
type ImageList struct {
	Images []Image `json:"images"`
}

// CreateToken asks for a token.
type CreateToken struct {
	Name    string   `json:"name" minLength:"1" maxLength:"63"`
	Project string   `json:"project,omitempty" doc:"Default: default"`
	Scopes  []string `json:"scopes,omitempty" enum:"read,write,admin,billing" doc:"Default: read and write"`
}

// Token describes a token; Secret is said once, when it is made.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Project string    `json:"project"`
	Scopes  []string  `json:"scopes"`
	Created time.Time `json:"created"`
	Secret  string    `json:"secret,omitempty"`
}

// TokenList is a list of tokens without secrets.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// Check is one line of the doctor's report.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Level  string `json:"level"` // ok, info, warning, error
	Detail string `json:"detail"`
	Cost   string `json:"cost,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// Doctor is what the host found out about itself.
type Doctor struct {
	OK     bool    `json:"ok"`
	Checks []Check `json:"checks"`
}

// Info describes the host.
type Info struct {
	Version           string `json:"version"`
	Provider          string `json:"provider"`
	ProviderVersion   string `json:"provider_version"`
	Accelerator       string `json:"accelerator"`
	AcceleratorReason string `json:"accelerator_reason"`
	MemoryTotal       int64  `json:"memory_total_bytes"`
	MemoryAvailable   int64  `json:"memory_available_bytes"`
	DiskAvailable     int64  `json:"disk_available_bytes"`
	Desktops          int    `json:"desktops"`
}
