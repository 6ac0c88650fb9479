package api

import "time"

// What drivers of managed runtimes speak: sandboxes that belong to a generation of
// somebody else's fence. Members have the names that those platforms use.

// HeaderGeneration says under which generation a call about a sandbox is made. One
// that is older than the newest seen for its scope is refused as stale_generation.
const HeaderGeneration = "X-Fence-Generation"

// SandboxScope says whose work a sandbox is for.
type SandboxScope struct {
	Workspace   string `json:"workspaceId" minLength:"1" maxLength:"256"`
	Environment string `json:"environmentId" minLength:"1" maxLength:"256"`
	Session     string `json:"sessionId" minLength:"1" maxLength:"256"`
	Work        string `json:"workId" minLength:"1" maxLength:"256"`
}

// SandboxArtifact is what a sandbox boots.
type SandboxArtifact struct {
	Type      string `json:"type" enum:"image"`
	Reference string `json:"reference" minLength:"1" maxLength:"256" doc:"Name or digest of an image of this host"`
	Digest    string `json:"digest,omitempty" maxLength:"128" doc:"What the reference must resolve to"`
}

// SandboxResources is the size of a sandbox.
type SandboxResources struct {
	Shape string `json:"shape,omitempty" maxLength:"63" doc:"Of a desktop; empty: the default"`
}

// SandboxWorkspace says how a sandbox comes by /workspace.
type SandboxWorkspace struct {
	BindingID string         `json:"bindingId,omitempty" maxLength:"256"`
	Strategy  string         `json:"strategy,omitempty" enum:"ephemeral,retained_runtime" doc:"Default ephemeral"`
	Restore   *SandboxHandle `json:"restore,omitempty" doc:"The suspended sandbox to go on from"`
}

// CreateSandbox asks for a sandbox.
type CreateSandbox struct {
	Scope      SandboxScope     `json:"scope"`
	Generation int64            `json:"generation" minimum:"1"`
	Owner      string           `json:"ownerId,omitempty" maxLength:"256"`
	Artifact   SandboxArtifact  `json:"artifact"`
	Resources  SandboxResources `json:"resources,omitzero"`
	Workspace  SandboxWorkspace `json:"workspace,omitzero"`
	// From is a checkpoint of an older generation of the same session.
	From  *SandboxCheckpoint `json:"runtimeCheckpoint,omitempty" doc:"Begin in that machine as it was, with all that ran there"`
	TTLMS int64              `json:"ttlMs,omitempty" minimum:"1000" maximum:"86400000" doc:"Of the lease; default 90000"`
}

// SealSandbox asks to keep a sandbox as it is.
type SealSandbox struct {
	RuntimeID         string `json:"runtimeId" minLength:"1" maxLength:"256"`
	Kind              string `json:"kind" enum:"process" doc:"Memory, devices and disks"`
	WorkspaceRevision int64  `json:"workspaceRevision,omitempty" minimum:"0"`
	HarnessVersion    string `json:"harnessVersion,omitempty" maxLength:"256"`
	RuntimeIdentity   string `json:"runtimeIdentity,omitempty" maxLength:"256"`
}

// SandboxCheckpoint is a sandbox that was kept. The last three are the caller's own: to
// compare them is its business.
type SandboxCheckpoint struct {
	Provider          string `json:"provider" minLength:"1" maxLength:"64"`
	CheckpointID      string `json:"checkpointId" minLength:"1" maxLength:"256"`
	Kind              string `json:"kind" enum:"process"`
	SourceRuntimeID   string `json:"sourceRuntimeId" minLength:"1" maxLength:"256"`
	SessionID         string `json:"sessionId" minLength:"1" maxLength:"256"`
	WorkGeneration    int64  `json:"workGeneration" minimum:"1"`
	WorkspaceRevision int64  `json:"workspaceRevision" minimum:"0"`
	HarnessVersion    string `json:"harnessVersion" maxLength:"256"`
	RuntimeIdentity   string `json:"runtimeIdentity" maxLength:"256"`
}

// SandboxLease names one incarnation. It holds no secret and may be stored.
type SandboxLease struct {
	Provider  string         `json:"provider" minLength:"1" maxLength:"64"`
	RuntimeID string         `json:"runtimeId" minLength:"1" maxLength:"256"`
	Metadata  map[string]any `json:"metadata,omitempty" doc:"Strings, numbers, booleans and null"`
}

// Sandbox is a machine that somebody leases.
type Sandbox struct {
	RuntimeID   string       `json:"runtimeId" doc:"Of this incarnation; never used again"`
	Incarnation string       `json:"incarnation" doc:"The same"`
	State       string       `json:"state" enum:"running,suspended,stopped,unknown"`
	Generation  int64        `json:"generation"`
	Scope       SandboxScope `json:"scope"`
	Lease       SandboxLease `json:"lease"`
	Expires     *time.Time   `json:"expiresAt,omitempty" doc:"When the lease runs out unless it is renewed; a suspended one has none"`
}

// RenewLease prolongs a lease from now.
type RenewLease struct {
	TTLMS int64 `json:"ttlMs,omitempty" minimum:"1000" maximum:"86400000" doc:"Default 90000"`
}

// SuspendSandbox says what has to survive; memory always does.
type SuspendSandbox struct {
	Kind string `json:"kind,omitempty" enum:"memory,filesystem" doc:"Default memory"`
}

// SandboxHandle is a suspended sandbox to go on from.
type SandboxHandle struct {
	Provider        string         `json:"provider" minLength:"1" maxLength:"64"`
	CheckpointID    string         `json:"checkpointId" minLength:"1" maxLength:"256" doc:"Runtime id of the suspended incarnation"`
	SourceRuntimeID string         `json:"sourceRuntimeId" maxLength:"256"`
	Kind            string         `json:"kind" enum:"memory,filesystem"`
	Scope           string         `json:"scope" enum:"runtime,portable" doc:"runtime: it lies on this host and goes with it"`
	Metadata        map[string]any `json:"metadata,omitempty"`
}

// ReapSandbox ends a sandbox from its stored lease.
type ReapSandbox struct {
	Scope  SandboxScope `json:"scope"`
	Lease  SandboxLease `json:"lease"`
	Reason string       `json:"reason,omitempty" enum:"completed,failed,lease_lost" doc:"Default lease_lost"`
}

// RuntimeDescriptor is what a driver needs to describe this host.
type RuntimeDescriptor struct {
	Provider         string              `json:"provider"`
	Version          string              `json:"version"`
	Placements       []string            `json:"placements"`
	Capabilities     RuntimeCapabilities `json:"capabilities"`
	CredentialEgress RuntimeEgress       `json:"credentialEgress"`
}

// RuntimeCapabilities is what sandboxes can do.
type RuntimeCapabilities struct {
	Sandbox   RuntimeSandbox `json:"sandbox"`
	Workspace []string       `json:"workspace"`
	Outputs   []string       `json:"outputs" doc:"Collected by the driver"`
	Harness   []string       `json:"harness"`
}

// RuntimeSandbox is what a sandbox can do.
type RuntimeSandbox struct {
	SuspendResume      string   `json:"suspendResume" enum:"supported,unsupported"`
	HardTerminate      string   `json:"hardTerminate" enum:"supported,best_effort"`
	RuntimeCheckpoints []string `json:"runtimeCheckpoints"`
}

// RuntimeEgress is how strictly egress is held.
type RuntimeEgress struct {
	Enforcement string `json:"enforcement" enum:"enforced,advisory,unsupported"`
}

// SandboxExec asks for a program to be run to its end. Either Command or Argv.
type SandboxExec struct {
	Command   string            `json:"command,omitempty" doc:"Run by /bin/sh -c"`
	Argv      []string          `json:"argv,omitempty"`
	Cwd       string            `json:"cwd,omitempty"`
	Env       map[string]string `json:"env,omitempty" doc:"Of this program alone"`
	TimeoutMS int64             `json:"timeoutMs,omitempty" minimum:"0" doc:"The process group is killed then; 0: none"`
}

// SandboxRan is the end of a SandboxExec.
type SandboxRan struct {
	Stdout    []byte `json:"stdoutB64" doc:"Base64"`
	Stderr    []byte `json:"stderrB64" doc:"Base64"`
	ExitCode  int    `json:"exitCode" doc:"128+n when ended by signal n"`
	Signal    string `json:"signal,omitempty" doc:"E.g. SIGKILL"`
	TimedOut  bool   `json:"timedOut"`
	Truncated bool   `json:"truncated,omitempty" doc:"An output was over 16 MiB"`
}

// SandboxList asks what is in a directory.
type SandboxList struct {
	Path      string `json:"path" minLength:"1" doc:"Absolute"`
	Recursive bool   `json:"recursive,omitempty"`
}
