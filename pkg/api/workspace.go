package api

import "time"

// Workspace is files at /workspace that outlive desktops.
type Workspace struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Project   string    `json:"project"`
	Published string    `json:"published,omitempty" doc:"The checkpoint that counts, as workspace/checkpoint in the store; absent before the first"`
	Created   time.Time `json:"created"`
}

// WorkspaceList is a list by name.
type WorkspaceList struct {
	Workspaces []Workspace `json:"workspaces"`
}

// CreateCheckpoint asks for a checkpoint of a desktop's /workspace.
type CreateCheckpoint struct {
	Workspace string `json:"workspace,omitempty" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Name of the workspace to publish in, which is made at need; default: the one that the desktop has; a fork has none at first"`
	Replace   bool   `json:"replace,omitempty" doc:"Publish even if the workspace has moved on since this desktop got it, or never was this desktop's"`
}

// Checkpoint is a workspace's disk at one instant.
type Checkpoint struct {
	Ref       string    `json:"ref" doc:"workspace/checkpoint in the store"`
	Workspace string    `json:"workspace" doc:"Name of the workspace that it was published in"`
	Parent    string    `json:"parent,omitempty" doc:"What it was written on top of"`
	Content   string    `json:"content" doc:"Hash over every byte of it"`
	Size      int64     `json:"size_bytes" doc:"Of the disk"`
	Used      int64     `json:"used_bytes" doc:"Of the disk, without holes"`
	Stored    int64     `json:"stored_bytes" doc:"Of all that it needs in the store"`
	Added     int64     `json:"added_bytes" doc:"Of what came into the store with it"`
	Created   time.Time `json:"created"`
	Desktop   string    `json:"desktop,omitempty" doc:"Id of the desktop whose disk it was"`
	// Frozen says that the guest's file system stood still for it; else it is what
	// a power cut would have left.
	Frozen   bool    `json:"frozen"`
	FrozenMS float64 `json:"frozen_ms,omitempty" doc:"How long writes in the guest waited for it"`
	Full     string  `json:"full,omitempty" doc:"Why all of the disk was read, not only what had changed"`
}

// CheckpointList is a list, newest first.
type CheckpointList struct {
	Checkpoints []Checkpoint `json:"checkpoints"`
}

// CloneWorkspace asks for a workspace that begins with a checkpoint of another.
type CloneWorkspace struct {
	Name       string `json:"name" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Of the new one"`
	Checkpoint string `json:"checkpoint,omitempty" maxLength:"130" doc:"Default: the one that counts"`
}

// ImportWorkspace says how files become a workspace.
type ImportWorkspace struct {
	Image   string // of the desktop that writes them
	SizeMiB int64  // of the disk; 0: 10,240
	Replace bool   // publish even over what the workspace is at
}

// TarMIME and LinesMIME are the content types of exported files, and of a list of
// JSON values, one a line.
const (
	TarMIME   = "application/x-tar"
	LinesMIME = "application/jsonl"
)

// What has become of a file.
const (
	DifferenceAdded   = "added"
	DifferenceRemoved = "removed"
	DifferenceChanged = "changed"
)

// FileDifference is a file that is not the same in two checkpoints.
type FileDifference struct {
	Path       string   `json:"path" doc:"Relative to /workspace; . is that itself"`
	Change     string   `json:"change" enum:"added,removed,changed"`
	Kind       string   `json:"kind" doc:"file, dir, symlink, hardlink, pipe, char device or block device; before, when it was removed"`
	Fields     []string `json:"fields,omitempty" doc:"What has changed: kind, content, link, device, mode, owner, time, attributes"`
	Size       int64    `json:"size,omitempty" doc:"Of a file, in bytes"`
	SizeBefore int64    `json:"size_before,omitempty"`
}

// Verified says what is wrong with a checkpoint in the store.
type Verified struct {
	Ref     string   `json:"ref"`
	OK      bool     `json:"ok"`
	Damaged []string `json:"damaged" doc:"Each object that is missing or not what was written"`
}

// PruneWorkspaces asks to remove checkpoints that a policy does not keep. The
// newest of each workspace stays; with no number at all nothing is removed but
// what was never published.
type PruneWorkspaces struct {
	Last    int  `json:"last,omitempty" minimum:"0" doc:"Keep so many of the newest of each workspace"`
	Hourly  int  `json:"hourly,omitempty" minimum:"0" doc:"Keep the newest of each of so many hours"`
	Daily   int  `json:"daily,omitempty" minimum:"0"`
	Weekly  int  `json:"weekly,omitempty" minimum:"0"`
	Monthly int  `json:"monthly,omitempty" minimum:"0"`
	DryRun  bool `json:"dry_run,omitempty" doc:"Only say what would be done"`
}

// Pruned is what a prune did, or would do.
type Pruned struct {
	Kept    int      `json:"kept"`
	Dropped []string `json:"dropped" doc:"Checkpoints, as workspace/checkpoint"`
	Spared  []string `json:"spared" doc:"Not kept by the policy, and needed by somebody"`
	Packs   int      `json:"packs" doc:"Objects removed"`
	Bytes   int64    `json:"bytes"`
	Missing []string `json:"missing" doc:"Published, and not in the store"`
}
