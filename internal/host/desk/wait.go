package desk

import (
	"context"
	"slices"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/pkg/api"
)

// Wait returns when a stage is reached. The error is the failure of the stage,
// or says where the desktop stands when ctx ended.
func (d *Desktop) Wait(ctx context.Context, stage api.Stage) (api.Desktop, error) {
	for {
		v, note, changed := d.watch()
		done, err := waited(v, stage)
		if done || err != nil {
			return v, err
		}
		select {
		case <-changed:
		case <-d.done:
			if v := d.View(); v.State == api.StateDeleting {
				return v, api.Errorf(api.CodePrecondition, "desktop %s was deleted before it reached the stage %s", v.Name, stage)
			}
			return v, api.Errorf(api.CodeGuestUnavail, "the host is stopping")
		case <-ctx.Done():
			e := fault.At(string(NextStage(v.Stages)), ctx.Err())
			e.Detail = "desktop " + v.Name + " is " + string(v.State) + ", stage " + string(stage) + " is not reached yet"
			if note != "" {
				e.Detail += ": " + note
			}
			return v, e
		}
	}
}

// waited says whether a view has the stage, or can never have it.
func waited(v api.Desktop, stage api.Stage) (bool, error) {
	reached := slices.ContainsFunc(v.Stages, func(t api.StageTime) bool { return t.Stage == stage })
	switch v.State {
	case api.StateReady, api.StatePaused, api.StateSuspended:
		return true, nil
	case api.StateFailed:
		if reached && v.Failure != nil && v.Failure.Stage != "run" {
			return true, nil
		}
		if v.Failure != nil {
			return false, v.Failure
		}
		return false, api.Errorf(api.CodeMachineFailed, "desktop %s failed", v.Name)
	case api.StateStopped:
		return false, api.Errorf(api.CodePrecondition, "the guest of desktop %s switched itself off", v.Name)
	case api.StateDeleting:
		return false, api.Errorf(api.CodePrecondition, "desktop %s was deleted before it reached the stage %s", v.Name, stage)
	case api.StateStarting:
	}
	return reached, nil
}
