// Package world is a world of fakes for tests: every port of a session host, in
// memory, with a log of calls, hooks to fail or hang each of them, and things that
// can leak.
package world

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/deskfork/deskfork/pkg/session"
)

// Hook stands in the way of a call; n counts the calls of that name from 1. An
// error is what the caller gets.
type Hook func(ctx context.Context, n int) error

// World is every port of a session host, in memory: machines, workspaces, outputs
// and grants that can leak, and a log of who called what.
type World struct {
	// Stores are the ones given, with hooks.
	Stores session.Stores
	// Live is what the ports say they can do.
	Live session.Capabilities
	// EgressCan is what the egress says; NoGrant lets it give none.
	EgressCan session.EgressCapabilities
	NoGrant   bool
	// Entries are the deliverables, nil for one.
	Entries []session.OutputEntry
	// Mangle spoils runtime checkpoints.
	Mangle func(*session.RuntimeCheckpoint)
	// Synchronized are the keys of synchronizations of inputs.
	Synchronized []string
	// Harness is what a harness does, nil for ending at once.
	Harness func(ctx context.Context, r session.HarnessRun) (session.Ending, error)

	mu     sync.Mutex
	before map[string]Hook
	after  map[string]Hook
	counts map[string]int
	calls  []string
	count  int
	id     string // of this world, because several may share stores
	// steps counts all calls; at the one of dieAt the host dies.
	steps, dieAt int
	dieAfter     bool
	dead         bool
	onDeath      func()

	// Machines by incarnation; sealed ones are suspended.
	machines map[string]*Machine
	sealed   map[string]bool
	// bindings that are neither released nor aborted: "workspace b1".
	bindings map[string]bool
	// kept are candidates by id, and by key.
	kept  map[string]session.Candidate
	byKey map[string]session.Candidate
	// seals are runtime checkpoints by id.
	seals map[string]session.RuntimeCheckpoint
}

// Machine is one incarnation.
type Machine struct {
	Lease session.Lease
	// Name is the intent's id that it was allocated under.
	Name string
	// Granted says that a credential grant reaches it.
	Granted bool
	// Harness says that a harness ran in it.
	Harness bool
}

// New makes a world with everything, on the given stores.
func New(stores session.Stores) *World {
	w := &World{
		id: session.NewSecret().Reveal()[:6],
		Live: session.Capabilities{
			Sandbox: session.SandboxCapabilities{SuspendResume: true, HardTerminate: true, RuntimeCheckpoints: []session.CheckpointKind{session.CheckpointProcess}},
			Workspace: []session.WorkspaceStrategy{
				session.CheckpointRestore, session.RetainedRuntime, session.DurableMount, session.Ephemeral,
			},
			Outputs: []session.OutputCapability{{Strategy: session.OutputsCollect, Durable: true}},
			Harness: []session.Lane{session.AMAWorker, session.Supervised},
		},
		EgressCan: session.EgressCapabilities{Enforcement: session.EgressEnforced, CredentialMode: "live"},
		before:    map[string]Hook{}, after: map[string]Hook{}, counts: map[string]int{},
		machines: map[string]*Machine{}, sealed: map[string]bool{}, bindings: map[string]bool{},
		kept: map[string]session.Candidate{}, byKey: map[string]session.Candidate{}, seals: map[string]session.RuntimeCheckpoint{},
	}
	w.Stores = session.Stores{Fences: hookedFences{stores.Fences, w}, Orphans: hookedOrphans{stores.Orphans, w}, Intents: hookedIntents{stores.Intents, w}}
	return w
}

// Before sets what happens in place of a call's effect: after an error there is
// none. After sets what happens to its answer: the effect is there.
func (w *World) Before(call string, h Hook) { w.set(w.before, call, h) }

// After sets what happens once a call had its effect.
func (w *World) After(call string, h Hook) { w.set(w.after, call, h) }

func (w *World) set(hooks map[string]Hook, call string, h Hook) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hooks[call] = h
}

// Fail is a hook that always gives err.
func Fail(err error) Hook { return func(context.Context, int) error { return err } }

// Hang is a hook that waits for the context.
func Hang(ctx context.Context, _ int) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Wedge is a hook that waits for release, whatever the context says.
func Wedge(release <-chan struct{}) Hook {
	return func(context.Context, int) error {
		<-release
		return nil
	}
}

// quiet calls happen by the clock or are asked all the time: the log leaves them
// out.
var quiet = []string{"fences.renew", "fences.current", "sandbox.heartbeat", "sandbox.capabilities", "workspace.strategies", "outputs.strategies", "harness.lanes", "egress.capabilities", "fences.published"}

// ErrDead is what a dead host sees of its calls.
var ErrDead = errors.New("the host is dead")

// Die lets the host die at the step-th call from now, before or after its effect:
// from there on nothing it calls has any. onDeath is called once.
func (w *World) Die(step int, after bool, onDeath func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps, w.dieAt, w.dieAfter, w.onDeath = 0, step, after, onDeath
}

// Revive is another host on the same world; false when none had died.
func (w *World) Revive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	was := w.dead
	w.dead, w.dieAt = false, 0
	return was
}

// alive is asked before (after false) and after the effect of the step-th call; the
// lock is held. Calls run side by side, so that each knows its own number.
func (w *World) alive(step int, after bool) error {
	if !w.dead && step == w.dieAt && w.dieAfter == after {
		w.dead = true
		w.onDeath()
	}
	if w.dead {
		return ErrDead
	}
	return nil
}

// Machines are the leases of all that exist, sealed ones too.
func (w *World) Machines() []session.Lease {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []session.Lease
	for _, m := range w.machines {
		all = append(all, m.Lease)
	}
	return all
}

// do is one call: its hooks and in between its effect, under the world's lock, or
// outside of it.
func (w *World) do(ctx context.Context, call string, effect, outside func() error) error {
	before, after, n, step, err := w.enter(call)
	if err != nil {
		return err
	}
	if before != nil {
		if err := before(ctx, n); err != nil {
			return err
		}
	}
	if effect != nil {
		w.mu.Lock()
		err := effect()
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
	if outside != nil {
		if err := outside(); err != nil {
			return err
		}
	}
	w.mu.Lock()
	err = w.alive(step, true)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	if after != nil {
		return after(ctx, n)
	}
	return nil
}

// enter logs a call and finds its hooks; n counts the calls of its name, step all.
func (w *World) enter(call string) (before, after Hook, n, step int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	if err := w.alive(w.steps, false); err != nil {
		return nil, nil, 0, 0, err
	}
	w.counts[call]++
	if !slices.Contains(quiet, call) {
		w.calls = append(w.calls, call)
	}
	return w.before[call], w.after[call], w.counts[call], w.steps, nil
}

// Calls is the log, without what happens by the clock.
func (w *World) Calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// Count says how often something was called.
func (w *World) Count(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[call]
}

// Leaks names what still exists: machines that run, bindings, grants. A sealed
// machine is none.
func (w *World) Leaks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Collect(maps.Keys(w.bindings))
	for id := range w.machines {
		if !w.sealed[id] {
			all = append(all, "machine "+id)
		}
	}
	slices.Sort(all)
	return all
}

// Machine is an incarnation that exists, nil when it is gone.
func (w *World) Machine(id string) *Machine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.machines[id]
}

// Forget loses what the provider knows of a candidate.
func (w *World) Forget(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.kept, id)
}

// next is a name that was never used; the lock is held.
func (w *World) next(prefix string) string {
	w.count++
	return fmt.Sprint(prefix, w.count, "-", w.id)
}
