// Package transaction runs one work item of a session under its fence: from the
// claim through machine, harness and checkpoint to the one publication, and back
// down in a fixed order whatever happened.
//
// Before the publication nothing that the run made counts; a run that loses its
// lease, is cancelled or fails leaves the pointer where it was. The order of the
// way down is in cleanup.go, and each of its steps has a deadline. A port that does
// not return after its context ended is abandoned after a grace; what it gives late
// is undone.
package transaction

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/session"
)

// Ports are what a host works with. RuntimeCheckpoints, Egress and Inputs may be
// nil.
type Ports struct {
	Stores             session.Stores
	Sandbox            session.Sandbox
	Workspaces         session.Workspaces
	Outputs            session.Outputs
	Harness            session.HarnessDriver
	RuntimeCheckpoints session.RuntimeCheckpoints
	Egress             session.CredentialEgress
	Inputs             session.Inputs
}

// Config is a host's. Zero durations mean the default in brackets.
type Config struct {
	// Name goes into the owner of every claim, for people.
	Name  string
	Ports Ports
	// Advertised is compared with what the ports say, if it is set.
	Advertised *session.Capabilities

	// TTL is how long a lease lasts without renewal [90 s]; it is renewed every
	// Heartbeat [30 s], and a renewal that fails is tried again every Retry [1 s]
	// until Margin [15 s] before it would run out.
	TTL, Heartbeat, Retry, Margin time.Duration
	// InputSync is the interval of synchronizing session inputs [15 s].
	InputSync time.Duration
	// Checkpoints is the interval of asking the harness for a checkpoint; 0 for
	// never.
	Checkpoints time.Duration
	// Terminate bounds the end of a machine [30 s], Cleanup each other step of the
	// way down [30 s], Admission the question what the ports can do [30 s].
	Terminate, Cleanup, Admission time.Duration
	// Grace is how long a port may take to return once its context ended [10 s].
	Grace time.Duration
	// Logger may be nil.
	Logger *slog.Logger
}

// withDefaults fills in and checks the durations.
func (c Config) withDefaults() (Config, error) {
	var faults error
	for _, d := range []struct {
		name  string
		value *time.Duration
		or    time.Duration
	}{
		{"TTL", &c.TTL, 90 * time.Second},
		{"Heartbeat", &c.Heartbeat, 30 * time.Second},
		{"Retry", &c.Retry, time.Second},
		{"Margin", &c.Margin, 15 * time.Second},
		{"InputSync", &c.InputSync, 15 * time.Second},
		{"Terminate", &c.Terminate, 30 * time.Second},
		{"Cleanup", &c.Cleanup, 30 * time.Second},
		{"Admission", &c.Admission, 30 * time.Second},
		{"Grace", &c.Grace, 10 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.or
		}
		if *d.value < 0 {
			faults = errors.Join(faults, fmt.Errorf("%s is %s: it must be positive", d.name, *d.value))
		}
	}
	if c.Checkpoints < 0 {
		faults = errors.Join(faults, fmt.Errorf("the checkpoint interval is %s: it must be positive, or 0 for never", c.Checkpoints))
	}
	if c.Heartbeat+c.Margin >= c.TTL {
		faults = errors.Join(faults, fmt.Errorf("a heartbeat of %s and a margin of %s do not fit into a lease of %s", c.Heartbeat, c.Margin, c.TTL))
	}
	if c.Grace > c.Margin {
		faults = errors.Join(faults, fmt.Errorf("a grace of %s is longer than the margin of %s", c.Grace, c.Margin))
	}
	p := c.Ports
	if p.Stores.Fences == nil || p.Stores.Orphans == nil || p.Stores.Intents == nil ||
		p.Sandbox == nil || p.Workspaces == nil || p.Outputs == nil || p.Harness == nil {
		faults = errors.Join(faults, errors.New("stores, sandbox, workspaces, outputs and harness must be set"))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, faults
}

// Host runs work items. Safe for concurrent use.
type Host struct {
	Config

	// stragglers are calls that ran on after their run gave them up.
	stragglers sync.WaitGroup
}

// New checks a configuration. It starts nothing.
func New(c Config) (*Host, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("configure session host: %w", err)
	}
	return &Host{Config: c}, nil
}

// Wait returns when no call that a run gave up is left. Call it after the last Run.
func (h *Host) Wait() { h.stragglers.Wait() }

// Request is one work item.
type Request struct {
	Scope   session.Scope
	Profile session.Profile
	// Session is what the platform says of it; nil when it brings nothing along.
	Session *session.Description
	Access  session.InputAccess
	// Progress is told each step as it begins; it may be nil, must not
	// block, and may be called by several goroutines.
	Progress func(step string)
}

// Run does a work item. Its context ending counts as a lost lease.
//
// A profile that cannot be met is an error before anything is allocated, and the
// result is then empty. Otherwise the result says how the run ended; an error
// beside it means that something could not be put in order and nobody will do so
// by itself: a machine that neither ended nor could be noted as an orphan, or a
// credential grant that could not be taken back.
func (h *Host) Run(ctx context.Context, req Request) (session.Result, error) {
	p, err := h.admit(ctx, req)
	if err != nil {
		return session.Result{}, err
	}
	began := time.Now()
	claim, err := h.claim(ctx, req.Scope)
	if conflict, ok := errors.AsType[*session.ConflictError](err); ok {
		return session.Result{Outcome: session.Conflict, RetryAfter: conflict.Left, Cause: err}, nil
	}
	if err != nil {
		return session.Result{}, fmt.Errorf("acquire fence: %w", err)
	}
	r := h.begin(ctx, req, p, claim)
	r.prolong(began, claim.Left)
	r.renewer = r.spawn(r.renewals)
	err = r.forward() //nolint:contextcheck // the run has a context of its own
	return r.finish(err)
}

// claim takes the fence. An answer that was lost is asked for once more: the same
// claim again is the same fence, and otherwise nobody had it until it ran out.
func (h *Host) claim(ctx context.Context, scope session.Scope) (session.Claim, error) {
	by := session.NewClaimant(h.Name)
	c, err := h.Ports.Stores.Fences.Acquire(ctx, scope, by, h.TTL)
	if _, conflict := errors.AsType[*session.ConflictError](err); err == nil || conflict || errors.Is(err, session.ErrCorrupt) {
		return c, err
	}
	t := time.NewTimer(h.Retry)
	defer t.Stop()
	select {
	case <-t.C:
		return h.Ports.Stores.Fences.Acquire(ctx, scope, by, h.TTL)
	case <-ctx.Done():
		return c, err
	}
}
