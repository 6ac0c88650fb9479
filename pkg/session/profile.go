package session

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// WorkspaceStrategy is a way to keep /workspace.
type WorkspaceStrategy string

// Strategies of workspaces.
const (
	// DurableMount: a file system outside the machine; a publication records its
	// identity only.
	DurableMount WorkspaceStrategy = "durable_mount"
	// CheckpointRestore: immutable checkpoints in a blob store.
	CheckpointRestore WorkspaceStrategy = "checkpoint_restore"
	// RetainedRuntime: the suspended machine itself; lost with its host.
	RetainedRuntime WorkspaceStrategy = "retained_runtime"
	// Ephemeral: nothing is kept.
	Ephemeral WorkspaceStrategy = "ephemeral"
)

// OutputStrategy is a way to take deliverables out of a machine.
type OutputStrategy string

// Strategies of outputs.
const (
	OutputsMount   OutputStrategy = "durable_mount"
	OutputsWatch   OutputStrategy = "watch_and_upload"
	OutputsCollect OutputStrategy = "final_collect"
)

// OutputCapability is a strategy and whether it keeps its promise after a crash.
type OutputCapability struct {
	Strategy OutputStrategy `json:"strategy"`
	// Durable is false for best effort.
	Durable bool `json:"durable"`
}

// Durability is what a profile asks of the workspace.
type Durability string

// Durabilities, the strictest first.
const (
	Durable       Durability = "durable"
	Continuable   Durability = "continuable"
	EphemeralWork Durability = "ephemeral"
)

// OutputMode is what a profile asks of the outputs.
type OutputMode string

// Output modes. The zero value is OutputsDisabled.
const (
	OutputsDisabled   OutputMode = ""
	OutputsDurable    OutputMode = "durable"
	OutputsBestEffort OutputMode = "best_effort"
)

// Need is how much a profile wants something. The zero value is Disabled.
type Need string

// Needs.
const (
	Disabled Need = ""
	Optional Need = "optional" // best_effort for credential egress
	Required Need = "required"
)

// Lane is how a harness is driven.
type Lane string

// Lanes.
const (
	// AMAWorker: the official worker runs in the machine and owns its work item.
	AMAWorker Lane = "ama_worker"
	// Supervised: a supervisor in the machine obeys the host, see SupervisorProtocol.
	Supervised Lane = "openma_supervised"
)

// SupervisorProtocol is the one that Supervised speaks.
const SupervisorProtocol = "openma-harness-supervisor-v1"

// Process is a program to start in the machine.
type Process struct {
	Command string   `json:"command"`
	Args    []string `json:"args,omitempty"`
	Cwd     string   `json:"cwd,omitempty"`
	// Env goes to this process only, never to a disk.
	Env map[string]Secret `json:"-"`
}

// Driver declares a harness.
type Driver struct {
	Lane    Lane    `json:"type"`
	Process Process `json:"process"`
	// What follows is for Supervised.
	Protocol string `json:"protocol,omitempty"`
	// HarnessID and Version name the harness that the supervisor starts.
	HarnessID string `json:"harnessId,omitempty"`
	Version   string `json:"version,omitempty"`
	// ReadyTimeout may be minutes: a harness may be installed first.
	ReadyTimeout     time.Duration `json:"-"`
	HeartbeatTimeout time.Duration `json:"-"`
	DrainTimeout     time.Duration `json:"-"`
}

// HarnessVersion is what a runtime checkpoint records of the harness.
func (d Driver) HarnessVersion() string {
	if d.Lane == Supervised {
		return d.Version
	}
	return string(d.Lane)
}

// RuntimeIdentity is one stable text for what would run: lane, command and the
// names of its environment, never their values.
func (d Driver) RuntimeIdentity() string {
	identity := struct {
		Type    Lane     `json:"type"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Cwd     string   `json:"cwd"`
		Env     []string `json:"env"`
		Harness []string `json:"harness,omitempty"`
	}{Type: d.Lane, Command: d.Process.Command, Args: append([]string{}, d.Process.Args...), Cwd: d.Process.Cwd, Env: slices.AppendSeq([]string{}, maps.Keys(d.Process.Env))}
	slices.Sort(identity.Env)
	if d.Lane == Supervised {
		identity.Harness = []string{d.HarnessID, d.Version}
	}
	b, err := json.Marshal(identity)
	if err != nil { // strings always marshal
		return ""
	}
	return string(b)
}

// Profile is what a session asks of whatever runs it.
type Profile struct {
	Workspace Durability
	// WorkspaceOrder is tried in order; empty means the durability's own order.
	WorkspaceOrder    []WorkspaceStrategy
	Outputs           OutputMode
	OutputOrder       []OutputStrategy
	RuntimeCheckpoint Need
	// PortableCheckpoint says that a runtime checkpoint must be one that other hosts
	// can go on from.
	PortableCheckpoint bool
	Egress             Need
	Driver             Driver
}

// Plan is a profile that met what is there.
type Plan struct {
	Workspace WorkspaceStrategy
	// Outputs is empty when there are none.
	Outputs OutputStrategy
	// RuntimeCheckpoint is empty when none is made; RuntimeCheckpointNeed says
	// whether the run fails with it.
	RuntimeCheckpoint     CheckpointKind
	RuntimeCheckpointNeed Need
	Egress                Need
	Driver                Driver
}

// SandboxCapabilities is what the machines of a provider can do.
type SandboxCapabilities struct {
	SuspendResume bool `json:"suspendResume"`
	// HardTerminate is false for best effort.
	HardTerminate      bool             `json:"hardTerminate"`
	RuntimeCheckpoints []CheckpointKind `json:"runtimeCheckpoints"`
	// PortableCheckpoints is false where they stay on the host that makes them.
	PortableCheckpoints bool `json:"portableCheckpoints,omitempty"`
}

// Capabilities is all that a provider advertises, or that its ports say live.
type Capabilities struct {
	Sandbox   SandboxCapabilities `json:"sandbox"`
	Workspace []WorkspaceStrategy `json:"workspace"`
	Outputs   []OutputCapability  `json:"outputs"`
	Harness   []Lane              `json:"harness"`
}
