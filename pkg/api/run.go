package api

import "time"

// StartRun asks for a command to be run in a workspace, in a machine of its own.
// What it leaves in the workspace counts when it ended well, and not before.
type StartRun struct {
	Workspace string            `json:"workspace" pattern:"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$" doc:"Name of the workspace, which is made at need; one run at a time works in it"`
	Image     string            `json:"image" minLength:"1" maxLength:"200" doc:"Image name, name:tag or digest"`
	Shape     string            `json:"shape,omitempty" enum:"small,medium,large" doc:"Default medium"`
	Network   string            `json:"network,omitempty" enum:"open,none" doc:"Egress; default open"`
	Argv      []string          `json:"argv" minItems:"1" doc:"The command"`
	Dir       string            `json:"dir,omitempty" doc:"Where it runs; default /workspace"`
	Env       map[string]string `json:"env,omitempty" doc:"Of the command alone; it is on no disk"`
	Input     []byte            `json:"input,omitempty" doc:"Base64; its standard input"`
	Packages  *Packages         `json:"packages,omitempty" doc:"What the command needs; installed first, where it is not there yet"`
	Inputs    []RunInput        `json:"inputs,omitempty" maxItems:"1000" doc:"Files that it finds in /mnt/session/inputs, read-only, all of them or no run"`
	Outputs   bool              `json:"outputs,omitempty" doc:"Keep what it puts into /mnt/session/outputs"`
	Keep      RunKeep           `json:"keep,omitempty" enum:"checkpoint,machine,nothing" doc:"What stays of the workspace; default checkpoint"`
	// RuntimeCheckpoint keeps the machine besides the workspace's files.
	RuntimeCheckpoint string `json:"runtime_checkpoint,omitempty" enum:"optional,required,portable" doc:"Keep the desktop as the command leaves it, so that the next run of the same command, with the same names of environment, begins in it; portable: required, and on other hosts too; default no"`
	// WorkspaceMiB is the size of a workspace that is new.
	WorkspaceMiB int64 `json:"workspace_mib,omitempty" minimum:"64" maximum:"1048576" doc:"Size of a new workspace in MiB; default 10240, allocated as it fills"`
}

// RunInput is a file that a run finds in /mnt/session/inputs: one that was uploaded,
// or one that the host fetches.
type RunInput struct {
	Path string `json:"path" minLength:"1" maxLength:"1024" doc:"Below /mnt/session/inputs"`
	ID   string `json:"id,omitempty" pattern:"^[a-z0-9]{12}$" doc:"Of an uploaded input"`
	URL  string `json:"url,omitempty" maxLength:"4096" doc:"https, of a public address; instead of id"`
	Hash string `json:"hash,omitempty" pattern:"^sha256:[0-9a-f]{64}$" doc:"What it must be; required with url"`
	Size *int64 `json:"size_bytes,omitempty" minimum:"0" doc:"What it must have"`
}

// Input is a file that was uploaded for runs.
type Input struct {
	ID      string    `json:"id"`
	Hash    string    `json:"hash"`
	Size    int64     `json:"size_bytes"`
	Expires time.Time `json:"expires,omitzero" doc:"Until then it certainly stays; what a run has named stays for that run"`
}

// Packages are names of packages by what installs them, each with a version at will.
// Those of apt go into the machine, the others into the workspace, where the next run
// finds them.
type Packages struct {
	Apt   []string `json:"apt,omitempty" maxItems:"200" doc:"name, name=version or name/suite"`
	Pip   []string `json:"pip,omitempty" maxItems:"200" doc:"name, name[extra] or name==version"`
	Npm   []string `json:"npm,omitempty" maxItems:"200" doc:"name, @scope/name or name@version"`
	Cargo []string `json:"cargo,omitempty" maxItems:"200" doc:"name or name@version"`
	Gem   []string `json:"gem,omitempty" maxItems:"200" doc:"name or name@version"`
	Go    []string `json:"go,omitempty" maxItems:"200" doc:"the path of a program, or path@version"`
}

// CheckpointPortable asks for a runtime checkpoint that other hosts can go on from.
const CheckpointPortable = "portable"

// RunKeep is what stays of the workspace of a run.
type RunKeep string

// Ways to keep a workspace.
const (
	KeepCheckpoint RunKeep = "checkpoint" // its files, in the blob store
	KeepMachine    RunKeep = "machine"    // the suspended machine with all that runs in it; lost with its host
	KeepNothing    RunKeep = "nothing"    // what was published before stays
)

// RunState is where a run stands.
type RunState string

// States of a run. Every one but RunRunning is an end.
const (
	RunRunning   RunState = "running"
	RunCompleted RunState = "completed"  // published; Revision says which
	RunConflict  RunState = "conflict"   // somebody else has the workspace; nothing was begun
	RunLeaseLost RunState = "lease_lost" // cancelled, or the workspace is somebody else's by now
	RunFailed    RunState = "failed"     // Error says why; the workspace is as it was
)

// Run is one run of a command in a workspace.
type Run struct {
	ID         string             `json:"id"`
	Workspace  string             `json:"workspace"`
	Project    string             `json:"project"`
	Image      string             `json:"image" doc:"As asked for"`
	Argv       []string           `json:"argv"`
	State      RunState           `json:"state" enum:"running,completed,conflict,lease_lost,failed"`
	Step       string             `json:"step,omitempty" doc:"What it does, or did last"`
	Desktop    string             `json:"desktop,omitempty" doc:"Name of its desktop, while there is one"`
	Generation int64              `json:"generation,omitempty" doc:"Of the fence of the workspace"`
	Revision   int64              `json:"revision,omitempty" doc:"The last one that it published"`
	ExitCode   *int               `json:"exit_code,omitempty" doc:"Of the command, once it has ended; 128+n when ended by signal n"`
	Outputs    *Outputs           `json:"outputs,omitempty" doc:"What it published besides the workspace"`
	Kept       *RuntimeCheckpoint `json:"runtime_checkpoint,omitempty" doc:"The desktop that it has kept for the next run"`
	Error      *Error             `json:"error,omitempty" doc:"Why it did not complete, or what is not in order although it did"`
	Warnings   []string           `json:"warnings,omitempty" doc:"Faults that changed nothing"`
	RetryMS    int64              `json:"retry_ms,omitempty" doc:"After how long a conflict may be over"`
	Created    time.Time          `json:"created"`
	Ended      time.Time          `json:"ended,omitzero"`
}

// RuntimeCheckpoint is a desktop that a run has kept.
type RuntimeCheckpoint struct {
	ID       string `json:"id"`
	Portable bool   `json:"portable" doc:"Other hosts can go on from it; otherwise it lies on the one that made it alone"`
}

// RunList is a list, newest first. The oldest are forgotten some time after their end.
type RunList struct {
	Runs []Run `json:"runs"`
}

// Outputs are deliverables of a run.
type Outputs struct {
	ID    string `json:"id"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// OutputFile is one deliverable.
type OutputFile struct {
	Path      string `json:"path" doc:"Below /mnt/session/outputs"`
	Hash      string `json:"hash"`
	Size      int64  `json:"size_bytes"`
	MediaType string `json:"media_type,omitempty"`
}

// OutputList is the deliverables of a run by path.
type OutputList struct {
	Files []OutputFile `json:"files"`
}

// OutputSet is what one run has published besides its workspace.
type OutputSet struct {
	ID        string    `json:"id"`
	Newest    bool      `json:"newest" doc:"It is what the workspace's publication names"`
	Published time.Time `json:"published,omitzero" doc:"Missing: not known"`
}

// OutputSetList is what the runs of a workspace have published and prunes have left,
// newest first.
type OutputSetList struct {
	Sets []OutputSet `json:"sets"`
}

// PruneOutputs asks to remove outputs of runs that a policy does not keep. The newest
// of each workspace stays; with no number at all nothing is removed but what was
// never published, and inputs that no run needs.
type PruneOutputs PruneWorkspaces

// PrunedOutputs is what a prune did, or would do. A set is what one run has published.
type PrunedOutputs struct {
	Kept    int      `json:"kept" doc:"Sets"`
	Dropped []string `json:"dropped" doc:"Sets"`
	Spared  []string `json:"spared" doc:"Sets that the policy does not keep, and that somebody needs"`
	Missing []string `json:"missing" doc:"Outputs that a workspace has published, and that are not in the store"`
	Inputs  int      `json:"inputs" doc:"Uploaded files that were removed"`
	Objects int      `json:"objects" doc:"Removed"`
	Bytes   int64    `json:"bytes"`
}

// RunEventType is what happened in a run.
type RunEventType string

// Types of events of a run.
const (
	RunStep   RunEventType = "step"   // Step begins
	RunStdout RunEventType = "stdout" // the command wrote Data
	RunStderr RunEventType = "stderr"
	RunLost   RunEventType = "lost" // events or output are missing; Step says what
	RunEnd    RunEventType = "end"  // the last one: Run is how it ended
)

// RunEvent is one thing that happened in a run. SSE: id is Seq, event is Type.
type RunEvent struct {
	Seq  uint64       `json:"seq"`
	Time time.Time    `json:"time"`
	Type RunEventType `json:"type" enum:"step,stdout,stderr,lost,end"`
	Step string       `json:"step,omitempty"`
	Data []byte       `json:"data,omitempty" doc:"Base64"`
	Run  *Run         `json:"run,omitempty"`
}
