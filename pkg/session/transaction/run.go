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

var (
	// errLease marks the cause of a run that lost its lease.
	errLease = errors.New("lease lost")
	// errEnded is the cause of a run that came to its own end.
	errEnded = errors.New("the run has ended")
	// ErrAbandoned says that a port did not return after its context ended.
	ErrAbandoned = errors.New("it did not return in time and was given up")
	// ErrPublishUnknown says that the store did not say whether it took the publication.
	ErrPublishUnknown = errors.New("the store did not answer whether the publication was taken: the next run will see")
)

// run is one work item under its fence. It belongs to the goroutine of Run; what
// others touch is below the mutex.
type run struct {
	h    *Host
	req  Request
	plan session.Plan
	log  *slog.Logger

	fence session.Fence
	// ctx ends when the lease is lost, the caller cancels or a loop fails; its
	// cause says which. The run owns it.
	ctx    context.Context
	cancel context.CancelCauseFunc
	caller context.Context // its end counts as a lost lease, until detach
	detach func() bool

	renewer, monitor, syncer *loop

	workspace, outputs *session.Binding
	egress             *session.EgressBinding
	lease              *session.Lease
	intent             *session.Intent
	// egressRevoked says that the grant is taken back already.
	egressRevoked bool
	// retained says that the pointer names the suspended machine, or may do so.
	retained bool

	gate liveGate
	// synchronizing holds one token, of the synchronization of inputs under way.
	synchronizing chan struct{}

	mu       sync.Mutex
	until    time.Time            // when the lease runs out, by this host's monotonic clock
	last     *session.Publication // the pointer as far as we know
	revision int64                // last one that this run published
	hasOut   bool                 // outputs of this run are published
	warned   int
	warnings []error
}

// maxWarnings is how many a result holds.
const maxWarnings = 100

func (h *Host) begin(ctx context.Context, req Request, p session.Plan, claim session.Claim) *run {
	r := &run{h: h, req: req, plan: p, fence: claim.Fence, last: claim.Last}
	r.log = h.Logger.With("session", req.Scope.Session, "work", req.Scope.Work, "generation", claim.Fence.Generation)
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.caller = ctx
	r.detach = context.AfterFunc(ctx, r.leave)
	r.gate = liveGate{turn: make(chan struct{}, 1), seen: map[string]bool{}}
	r.synchronizing = make(chan struct{}, 1)
	return r
}

// lose ends the run as one that has lost its lease.
func (r *run) lose(err error) { r.cancel(fmt.Errorf("%w: %w", errLease, err)) }

// fail ends the run with an error of one of its loops.
func (r *run) fail(err error) { r.cancel(err) }

// leave ends the run because the caller's context did.
func (r *run) leave() { r.lose(fmt.Errorf("the caller gave up: %w", context.Cause(r.caller))) }

// aborted is the cause of the run's early end, nil while it goes on. It asks the
// caller's context too, whose end comes to ctx by another goroutine.
func (r *run) aborted() error {
	if r.caller.Err() != nil {
		r.leave()
	}
	return context.Cause(r.ctx)
}

func (r *run) warn(step string, err error) {
	if err == nil {
		return
	}
	r.log.Warn("a step failed and changed nothing", "step", step, "error", err)
	r.mu.Lock()
	defer r.mu.Unlock()
	// A run may last for weeks; the log has them all.
	if r.warned++; r.warned <= maxWarnings {
		r.warnings = append(r.warnings, fmt.Errorf("%s: %w", step, err))
	}
}

func (r *run) step(name string) {
	r.log.Debug("step", "step", name)
	if r.req.Progress != nil {
		r.req.Progress(name)
	}
}

func (r *run) pointer() *session.Publication {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// forward is the way up, to the publication.
func (r *run) forward() error {
	if err := r.prepare(); err != nil {
		return err
	}
	if err := r.allocate(); err != nil {
		return err
	}
	if err := r.attach(); err != nil {
		return err
	}
	if err := r.materializeInputs(); err != nil {
		return err
	}
	if err := r.harness(); err != nil {
		return err
	}
	return r.commit()
}

// finish is the way down, and the result.
func (r *run) finish(err error) (session.Result, error) {
	cause := r.aborted()
	res := session.Result{Outcome: session.Completed}
	reason := session.ReasonCompleted
	switch {
	case err == nil:
		// Published: what happened to the lease afterwards changes nothing.
	case errors.Is(cause, errLease), errors.Is(err, session.ErrLost), errors.Is(err, errLease):
		res.Outcome, reason = session.LeaseLost, session.ReasonLeaseLost
	default:
		res.Outcome, reason = session.Failed, session.ReasonFailed
	}
	if err != nil {
		res.Cause = err
		if cause != nil && !errors.Is(err, cause) {
			res.Cause = errors.Join(err, cause)
		}
	}
	fault := r.cleanup(reason, res.Cause)
	r.mu.Lock()
	defer r.mu.Unlock()
	res.Revision, res.Warnings = r.revision, errors.Join(r.warnings...)
	if fault != nil {
		fault = fmt.Errorf("the run is over (%s), but not all is in order: %w", res.Outcome, fault)
	}
	r.log.Info("run ended", "outcome", string(res.Outcome), "revision", res.Revision)
	return res, fault
}
