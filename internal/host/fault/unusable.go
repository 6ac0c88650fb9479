package fault

import "github.com/deskfork/deskfork/pkg/api"

// Unusable says why a desktop without live parts has none; next is the stage that
// it has not reached.
func Unusable(v api.Desktop, next api.Stage) error {
	var e *api.Error
	switch v.State {
	case api.StateStarting, api.StateReady:
		e = api.Errorf(api.CodeGuestUnavail, "the machine of desktop %s does not run yet", v.Name)
		e.Stage = string(next)
	case api.StateFailed:
		e = api.Errorf(api.CodePrecondition, "desktop %s has failed", v.Name)
		if v.Failure != nil {
			e.Stage, e.Hint = v.Failure.Stage, "the failure: "+v.Failure.Detail
		}
	case api.StateStopped:
		e = api.Errorf(api.CodePrecondition, "the guest of desktop %s switched itself off", v.Name)
	case api.StateDeleting:
		e = api.Errorf(api.CodePrecondition, "desktop %s is being deleted", v.Name)
	case api.StatePaused, api.StateSuspended:
		e = api.Errorf(api.CodePrecondition, "desktop %s is %s", v.Name, v.State)
		e.Hint = "resume it first"
	default:
		e = api.Errorf(api.CodePrecondition, "desktop %s is %s", v.Name, v.State)
	}
	return e
}
