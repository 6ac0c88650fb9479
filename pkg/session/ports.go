package session

import (
	"context"
	"io"
)

// Binding names what a port prepared for one tenure, and where the machine sees
// it.
type Binding struct {
	ID        string   `json:"bindingId"`
	MountPath string   `json:"mountPath"`
	Metadata  Metadata `json:"metadata,omitempty"`
}

// Where a machine sees workspace, inputs and outputs.
const (
	WorkspacePath = "/workspace"
	InputPath     = "/mnt/session/inputs"
	OutputPath    = "/mnt/session/outputs"
)

// Allocation is a request for a machine.
type Allocation struct {
	Tenure Tenure
	// Name is the id of the intent: a retry under it gives the same machine, and
	// after a crash the machine is found by it.
	Name      string
	Plan      Plan
	Workspace Binding
	Outputs   *Binding
	Egress    *EgressBinding
	// Resume is the suspended machine that holds the workspace, under the
	// strategy retained_runtime. It must stay usable until a later publication
	// no longer names it, whatever becomes of the new incarnation.
	Resume *Lease
}

// RuntimeState is what a provider says of a machine.
type RuntimeState string

// States.
const (
	StateRunning   RuntimeState = "running"
	StateSuspended RuntimeState = "suspended"
	StateStopped   RuntimeState = "stopped"
	StateUnknown   RuntimeState = "unknown"
)

// Sandbox makes and ends machines.
type Sandbox interface {
	Capabilities(ctx context.Context, scope Scope) (SandboxCapabilities, error)
	// Acquire gives a machine that answered its readiness probe. When it fails or
	// ctx ends it undoes all it made. The id in the lease is a new incarnation's.
	Acquire(ctx context.Context, a Allocation) (Lease, error)
	// Heartbeat says that the holder lives and asks whether the machine does:
	// ErrSandboxLost when it is gone; any other error means not known.
	Heartbeat(ctx context.Context, t Tenure, l Lease) error
	// Suspend stops the machine so that a later Acquire can resume it, and gives
	// the lease to resume.
	Suspend(ctx context.Context, t Tenure, l Lease) (Lease, error)
	// Terminate ends the incarnation. Gone already is success; it may be repeated
	// and may run beside Reap; one that failed can be tried again. What an earlier
	// Suspend keeps under another lease stays.
	Terminate(ctx context.Context, t Tenure, l Lease, reason Reason) error
	// Reap ends a machine from its stored lease alone, after a restart too. It
	// proves ownership first; gone already, or an incarnation that has been
	// resumed since, is success; ErrForeign for another provider's.
	Reap(ctx context.Context, scope Scope, l Lease, reason Reason) error
	Inspect(ctx context.Context, l Lease) (RuntimeState, error)
}

// Materialization is a request for a workspace.
type Materialization struct {
	Tenure   Tenure
	Strategy WorkspaceStrategy
	// Active is the last published candidate, nil for a first run. Under every
	// strategy but ephemeral it must be restored whole or the call must fail.
	Active *Candidate
	Key    string
}

// WorkspaceCheckpoint is a request for an immutable candidate.
type WorkspaceCheckpoint struct {
	Tenure   Tenure
	Strategy WorkspaceStrategy
	Binding  Binding
	// Lease is the machine, or what Suspend gave.
	Lease Lease
	Key   string
}

// Workspaces keeps /workspace over machines.
type Workspaces interface {
	Strategies(ctx context.Context, scope Scope) ([]WorkspaceStrategy, error)
	// Materialize undoes its own partial work when it fails.
	Materialize(ctx context.Context, m Materialization) (Binding, error)
	Attach(ctx context.Context, t Tenure, b Binding, l Lease) error
	// Checkpoint is idempotent on its key and never changes what is published.
	Checkpoint(ctx context.Context, c WorkspaceCheckpoint) (Candidate, error)
	// Release frees the binding; checkpoints stay. Idempotent.
	Release(ctx context.Context, t Tenure, b Binding) error
}

// OutputPreparation is a request for a place for deliverables.
type OutputPreparation struct {
	Tenure   Tenure
	Strategy OutputStrategy
	Key      string
}

// OutputEntry is one deliverable.
type OutputEntry struct {
	// LogicalPath is relative to OutputPath, slash-separated, without dots.
	LogicalPath string `json:"logicalPath"`
	ContentHash string `json:"contentHash"`
	// Size in bytes.
	Size      int64  `json:"size"`
	MediaType string `json:"mediaType,omitempty"`
}

// Limits of one collection of outputs.
const (
	MaxOutputFiles       = 10_000
	MaxOutputBytes int64 = 10 << 30
)

// OutputSet is a request to make entries an immutable candidate.
type OutputSet struct {
	Tenure  Tenure
	Binding Binding
	Entries []OutputEntry
	Key     string
}

// Outputs takes deliverables out of machines.
type Outputs interface {
	Strategies(ctx context.Context, scope Scope) ([]OutputCapability, error)
	Prepare(ctx context.Context, p OutputPreparation) (Binding, error)
	Attach(ctx context.Context, t Tenure, b Binding, l Lease) error
	Collect(ctx context.Context, t Tenure, b Binding, l Lease) ([]OutputEntry, error)
	// Finalize is idempotent on its key and fails when an entry has changed.
	Finalize(ctx context.Context, s OutputSet) (Candidate, error)
	// Release frees the binding after a publication. Idempotent.
	Release(ctx context.Context, t Tenure, b Binding) error
	// Abort frees the binding of a run that published nothing. It never removes
	// what Finalize made, because that may be named already. Idempotent.
	Abort(ctx context.Context, t Tenure, b Binding, reason Reason) error
}

// Ending is how a harness came to its end.
type Ending string

// Endings.
const (
	EndingCompleted Ending = "completed"
	EndingAborted   Ending = "aborted"
)

// LiveCheckpoint is what a running harness asks to be made durable.
type LiveCheckpoint struct {
	ID string
	// SessionID must be the run's.
	SessionID string
	TurnID    string
}

// HarnessRun is one run of a harness.
type HarnessRun struct {
	Tenure        Tenure
	Lease         Lease
	WorkspacePath string
	// OutputPath is empty when outputs are disabled.
	OutputPath string
	Driver     Driver
	// Checkpoint publishes while the harness runs; it gives the revision.
	Checkpoint func(ctx context.Context, c LiveCheckpoint) (int64, error)
	// OnRequester takes the one function that asks a ready harness for a
	// checkpoint and returns when that request is settled.
	OnRequester func(request func(ctx context.Context, requestID string) error)
}

// HarnessDriver runs harnesses in machines.
type HarnessDriver interface {
	Lanes(ctx context.Context, scope Scope) ([]Lane, error)
	// Run returns soon after ctx ends, with EndingAborted or an error.
	Run(ctx context.Context, r HarnessRun) (Ending, error)
}

// SupervisorTransport starts a supervisor in a machine.
type SupervisorTransport interface {
	// Open gives the process's stdin and stdout as bytes; stderr is drained.
	// Close ends the process group and is idempotent.
	Open(ctx context.Context, scope Scope, l Lease, p Process) (io.ReadWriteCloser, error)
}

// RuntimeSeal is a request for a runtime checkpoint, after the harness has
// exited.
type RuntimeSeal struct {
	Tenure            Tenure
	Lease             Lease
	Kind              CheckpointKind
	WorkspaceRevision int64
	HarnessVersion    string
	RuntimeIdentity   string
}

// RuntimeCheckpoints seals machines and goes on from them.
type RuntimeCheckpoints interface {
	Create(ctx context.Context, s RuntimeSeal) (RuntimeCheckpoint, error)
	// Restore is an Acquire that starts from the checkpoint; the same rules hold.
	Restore(ctx context.Context, a Allocation, c RuntimeCheckpoint) (Lease, error)
}
