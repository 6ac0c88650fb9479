// Package boot brings a desktop up in named stages, each with a deadline of its
// own. When one fails the error says which, and what it was waiting for.
package boot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
)

// Step is one stage.
type Step struct {
	Stage api.Stage
	// Limit is how long the stage may take where vCPUs run in hardware.
	Limit time.Duration
	// Run does the stage. It calls note with what it is waiting for; the last
	// note becomes part of the error when the time is up.
	Run func(ctx context.Context, note func(string)) error
}

// Run does the steps in order. Scale stretches their limits. reached is called
// after each one. The error is an *api.Error with the stage; when ctx ended, its
// cause is what the error says.
func Run(ctx context.Context, steps []Step, scale func() int, reached func(api.Stage)) error {
	for _, s := range steps {
		if err := runStep(ctx, s, s.Limit*time.Duration(max(scale(), 1))); err != nil {
			return err
		}
		reached(s.Stage)
	}
	return nil
}

func runStep(ctx context.Context, s Step, limit time.Duration) error {
	sctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	waiting := ""
	err := s.Run(sctx, func(what string) { waiting = what })
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fault.At(string(s.Stage), context.Cause(ctx))
	case errors.Is(sctx.Err(), context.DeadlineExceeded) && isTimeout(err):
		return timeout(s.Stage, limit, waiting)
	}
	return fault.At(string(s.Stage), err)
}

// isTimeout says whether a step failed because its time was up, rather than by
// a fault of its own that came late.
func isTimeout(err error) bool {
	e := fault.From(err)
	return e.Code == api.CodeDeadline || e.Code == api.CodeCancelled || e.Code == api.CodeInternal
}

func timeout(stage api.Stage, limit time.Duration, waiting string) error {
	code := api.CodeGuestFailed
	if stage == api.StageMachine {
		code = api.CodeMachineFailed
	}
	what := fmt.Sprintf("not reached within %s", limit)
	if waiting != "" {
		what += ": " + waiting
	}
	return fault.Stage(stage, code, "%s", what)
}

// Poll calls try every interval until it is done, fails for good, or ctx ends.
// try answers what is still missing; empty means done.
func Poll(ctx context.Context, every time.Duration, note func(string), try func(context.Context) (string, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		missing, err := try(ctx)
		if err != nil {
			return err
		}
		if missing == "" {
			return nil
		}
		note(missing)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
