package transaction

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	"github.com/deskfork/deskfork/pkg/session"
)

// hasInputs says whether the session brings anything for the inputs port.
func (r *run) hasInputs() bool {
	return r.h.Ports.Inputs != nil && r.req.Session != nil && len(r.req.Session.Resources) > 0
}

func (r *run) inputs(stage session.Stage) session.InputContext {
	t := r.fence.Tenure
	return session.InputContext{
		Tenure: t, Session: *r.req.Session, Lease: *r.lease, Access: r.req.Access, Authorize: r.authorize,
		WorkerOwnsMemory: r.plan.Driver.Lane == session.AMAWorker, Key: t.Key(stage),
	}
}

func (r *run) materializeInputs() error {
	if !r.hasInputs() {
		return nil
	}
	if err := r.do("check fence", r.authorize); err != nil {
		return err
	}
	var restored *session.Candidate
	if last := r.pointer(); last != nil && r.plan.Workspace != session.Ephemeral {
		restored = &last.Workspace
	}
	return r.do("materialize session inputs", func(ctx context.Context) error {
		return r.h.Ports.Inputs.Materialize(ctx, r.inputs(session.StageInputs), restored)
	})
}

// synchronize takes changes of inputs back; round is part of its key.
func (r *run) synchronize(round string) error {
	if !r.hasInputs() {
		return nil
	}
	select {
	case r.synchronizing <- struct{}{}:
		defer func() { <-r.synchronizing }()
	case <-r.ctx.Done():
		return fmt.Errorf("synchronize session inputs: %w", r.aborted())
	}
	if err := r.do("check fence", r.authorize); err != nil {
		return err
	}
	return r.do("synchronize session inputs", func(ctx context.Context) error {
		return r.h.Ports.Inputs.Synchronize(ctx, r.inputs(session.StageSynchronize.Of(round)))
	})
}

// synchronizations runs while the harness does. A failure ends the run.
func (r *run) synchronizations(stop <-chan struct{}) {
	for n := 1; r.pause(stop, r.h.InputSync); n++ {
		if err := r.synchronize("periodic-" + strconv.Itoa(n)); err != nil {
			r.fail(err)
			return
		}
	}
}

// harness runs it to its end. One that does not end when it is told to is given up,
// and dies with its machine.
func (r *run) harness() error {
	if r.hasInputs() {
		r.syncer = r.spawn(r.synchronizations)
	}
	requests := &requester{r: r}
	run := session.HarnessRun{
		Tenure: r.fence.Tenure, Lease: *r.lease, WorkspacePath: r.workspace.MountPath, Driver: r.plan.Driver,
		Checkpoint: r.liveCheckpoint, OnRequester: requests.set,
	}
	if r.outputs != nil {
		run.OutputPath = r.outputs.MountPath
	}
	ending, err := call(r, "run harness", func(ctx context.Context) (session.Ending, error) {
		return r.h.Ports.Harness.Run(ctx, run)
	}, nil)
	// No checkpoint begins from here on; one under way is awaited.
	r.gate.close()
	requests.end()
	r.syncer.end()
	if err := r.checked("run harness", err); err != nil {
		return err
	}
	switch ending {
	case session.EndingCompleted:
		return nil
	case session.EndingAborted:
		return fmt.Errorf("run harness: %w: it was aborted", errLease)
	default:
		return fmt.Errorf("run harness: it ended as %q, which is neither completed nor aborted", ending)
	}
}

// requester asks a ready harness for checkpoints at an interval, one at a time.
type requester struct {
	r *run

	mu     sync.Mutex
	ended  bool
	asking *loop
}

// set takes the function to ask by; only the first counts.
func (q *requester) set(request func(ctx context.Context, requestID string) error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended || q.asking != nil || q.r.h.Checkpoints == 0 {
		return
	}
	r := q.r
	q.asking = r.spawn(func(stop <-chan struct{}) {
		for n := 1; r.pause(stop, r.h.Checkpoints); n++ {
			// A request ends with the loop, not only with the run.
			ctx, cancel := context.WithCancel(r.ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				select {
				case <-stop:
					cancel()
				case <-ctx.Done():
				}
			}()
			_, err := await(r.h, ctx, func(ctx context.Context) (struct{}, error) {
				return struct{}{}, request(ctx, "periodic-"+strconv.Itoa(n))
			}, nil)
			stopped := ctx.Err() != nil
			cancel()
			<-done
			if stopped {
				return
			}
			if err != nil {
				r.fail(fmt.Errorf("request a checkpoint: %w", err))
				return
			}
		}
	})
}

func (q *requester) end() {
	q.mu.Lock()
	q.ended = true
	asking := q.asking
	q.mu.Unlock()
	asking.end()
}
