// Package plan decides, before anything is allocated, whether a session can be
// run as its profile asks, and how. It is pure: what there is comes in, a plan or
// a reason comes out. Nothing is downgraded silently.
package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deskfork/deskfork/pkg/session"
)

// Request is everything the decision depends on.
type Request struct {
	Profile   session.Profile
	Resources []session.Resource
	// Live is what the ports say now; Advertised what the provider's descriptor
	// says, nil when there is none to compare with.
	Live       session.Capabilities
	Advertised *session.Capabilities
	// Egress is what the credential egress says; nil without that port.
	Egress *session.EgressCapabilities
	// HasInputs and HasRuntimeCheckpoints say whether those ports are there.
	HasInputs, HasRuntimeCheckpoints bool
	// Periodic asks for checkpoints while the harness runs.
	Periodic bool
}

// Resolve gives the plan, or a *session.CapabilityError joined with every other
// reason against it.
func Resolve(r Request) (session.Plan, error) {
	p := session.Plan{Driver: r.Profile.Driver, Egress: EgressNeed(r.Profile, r.Resources)}
	var faults [8]error
	faults[0] = drift(r.Advertised, r.Live)
	faults[1] = inputs(r)
	p.Workspace, faults[2] = workspace(r.Profile, r.Live)
	p.Outputs, faults[3] = outputs(r.Profile, r.Live)
	p.RuntimeCheckpoint, faults[4] = checkpoint(r)
	p.RuntimeCheckpointNeed = r.Profile.RuntimeCheckpoint
	faults[5] = harness(r.Profile.Driver, r.Live)
	p.Egress, faults[6] = egress(p.Egress, r.Egress)
	if r.Periodic && (r.Profile.Driver.Lane != session.Supervised || p.Workspace != session.CheckpointRestore) {
		faults[7] = fault("workspace", "periodic checkpoints need the lane %s and the strategy %s, not %s and %q",
			session.Supervised, session.CheckpointRestore, r.Profile.Driver.Lane, p.Workspace)
	}
	if err := errors.Join(faults[:]...); err != nil {
		return session.Plan{}, err
	}
	return p, nil
}

func fault(part, format string, args ...any) error {
	return &session.CapabilityError{Part: part, Detail: fmt.Sprintf(format, args...)}
}

// EgressNeed is the profile's, raised to required by a repository, whose
// credential must not enter the machine.
func EgressNeed(p session.Profile, resources []session.Resource) session.Need {
	for _, r := range resources {
		if r.Type == session.ResourceRepository {
			return session.Required
		}
	}
	return p.Egress
}

func inputs(r Request) error {
	if r.HasInputs {
		return nil
	}
	for _, res := range r.Resources {
		if r.Profile.Driver.Lane == session.AMAWorker && res.Type == session.ResourceMemory {
			continue // the worker's own
		}
		return fault("session inputs", "the session brings a %s, and nothing here can materialize it", res.Type)
	}
	return nil
}

// eligible lists what keeps each promise, best first.
var eligible = map[session.Durability][]session.WorkspaceStrategy{
	session.Durable:       {session.DurableMount, session.CheckpointRestore},
	session.Continuable:   {session.DurableMount, session.CheckpointRestore, session.RetainedRuntime},
	session.EphemeralWork: {session.DurableMount, session.CheckpointRestore, session.RetainedRuntime, session.Ephemeral},
}

func workspace(p session.Profile, live session.Capabilities) (session.WorkspaceStrategy, error) {
	allowed, ok := eligible[p.Workspace]
	if !ok {
		return "", fault("workspace", "durability %q is none of durable, continuable, ephemeral", p.Workspace)
	}
	order := allowed
	if len(p.WorkspaceOrder) > 0 {
		order = p.WorkspaceOrder
	}
	for _, s := range order {
		suspends := s != session.RetainedRuntime || live.Sandbox.SuspendResume
		if suspends && slices.Contains(allowed, s) && slices.Contains(live.Workspace, s) {
			return s, nil
		}
	}
	return "", fault("workspace", "%s allows %s in the order %s, there is %s", p.Workspace, list(allowed), list(order), list(live.Workspace))
}

var outputOrder = []session.OutputStrategy{session.OutputsMount, session.OutputsWatch, session.OutputsCollect}

func outputs(p session.Profile, live session.Capabilities) (session.OutputStrategy, error) {
	switch p.Outputs {
	case session.OutputsDisabled:
		return "", nil
	case session.OutputsDurable, session.OutputsBestEffort:
	default:
		return "", fault("outputs", "mode %q is none of durable, best_effort, or empty for disabled", p.Outputs)
	}
	order := outputOrder
	if len(p.OutputOrder) > 0 {
		order = p.OutputOrder
	}
	for _, s := range order {
		for _, c := range live.Outputs {
			if c.Strategy == s && (c.Durable || p.Outputs == session.OutputsBestEffort) {
				return s, nil
			}
		}
	}
	return "", fault("outputs", "%s outputs by %s are not among %v", p.Outputs, list(order), live.Outputs)
}

func checkpoint(r Request) (session.CheckpointKind, error) {
	need := r.Profile.RuntimeCheckpoint
	switch need {
	case session.Disabled:
		return "", nil
	case session.Optional, session.Required:
	default:
		return "", fault("runtime checkpoint", "need %q is none of optional, required, or empty for disabled", need)
	}
	for _, kind := range []session.CheckpointKind{session.CheckpointProcess, session.CheckpointFilesystem} {
		if !slices.Contains(r.Live.Sandbox.RuntimeCheckpoints, kind) {
			continue
		}
		if !r.HasRuntimeCheckpoints {
			return "", fault("runtime checkpoint", "%s checkpoints are advertised, but no port makes them", kind)
		}
		if r.Profile.PortableCheckpoint && !r.Live.Sandbox.PortableCheckpoints {
			return "", fault("runtime checkpoint", "other hosts shall be able to go on from it, and here it stays on the host")
		}
		return kind, nil
	}
	if need == session.Required {
		return "", fault("runtime checkpoint", "it is required, and the sandbox makes none")
	}
	return "", nil
}

func harness(d session.Driver, live session.Capabilities) error {
	if !slices.Contains(live.Harness, d.Lane) {
		return fault("harness", "lane %q is not among %s", d.Lane, list(live.Harness))
	}
	if d.Process.Command == "" {
		return fault("harness", "the process has no command")
	}
	if d.Lane != session.Supervised {
		return nil
	}
	switch {
	case d.Protocol != session.SupervisorProtocol:
		return fault("harness", "protocol %q is not %s", d.Protocol, session.SupervisorProtocol)
	case d.HarnessID == "" || d.Version == "":
		return fault("harness", "a supervised harness needs an id and a version")
	case d.ReadyTimeout <= 0 || d.HeartbeatTimeout <= 0 || d.DrainTimeout <= 0:
		return fault("harness", "timeouts for ready, heartbeat and drain must be positive")
	}
	return nil
}

func egress(need session.Need, port *session.EgressCapabilities) (session.Need, error) {
	switch {
	case need == session.Disabled:
		return need, nil
	case need != session.Optional && need != session.Required:
		return "", fault("credential egress", "need %q is none of optional, required, or empty for disabled", need)
	case need == session.Optional && (port == nil || port.Enforcement == session.EgressUnsupported):
		return session.Disabled, nil // a best effort may find nothing to do
	case port == nil:
		return "", fault("credential egress", "it is required, and there is none")
	case need == session.Required && port.Enforcement != session.EgressEnforced:
		return "", fault("credential egress", "it is required, and here it is %q, not enforced", port.Enforcement)
	}
	return need, nil
}

// drift compares what is advertised with what is live, in any order.
func drift(advertised *session.Capabilities, live session.Capabilities) error {
	if advertised == nil {
		return nil
	}
	a := advertised
	return errors.Join(
		differ("workspace", a.Workspace, live.Workspace),
		differ("harness", a.Harness, live.Harness),
		differ("outputs", a.Outputs, live.Outputs),
		differ("runtime checkpoint", a.Sandbox.RuntimeCheckpoints, live.Sandbox.RuntimeCheckpoints),
		differ("runtime checkpoint", []bool{a.Sandbox.PortableCheckpoints}, []bool{live.Sandbox.PortableCheckpoints}),
		differ("sandbox", []bool{a.Sandbox.SuspendResume}, []bool{live.Sandbox.SuspendResume}),
		differ("sandbox", []bool{a.Sandbox.HardTerminate}, []bool{live.Sandbox.HardTerminate}))
}

func differ[T comparable](part string, advertised, live []T) error {
	within := func(a, b []T) bool {
		return !slices.ContainsFunc(a, func(x T) bool { return !slices.Contains(b, x) })
	}
	if within(advertised, live) && within(live, advertised) {
		return nil
	}
	return fault(part, "%v is advertised, %v is there: the descriptor is out of date", advertised, live)
}

func list[T ~string](all []T) string {
	if len(all) == 0 {
		return "nothing"
	}
	names := make([]string, 0, len(all))
	for _, s := range all {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
