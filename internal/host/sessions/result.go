package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/sessions/harness"
	"github.com/deskfork/deskfork/internal/host/sessions/input"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/packages"
)

// lost notes that output is missing.
func (r *run) lost(stream string, bytes int64) {
	r.tape.Add(api.RunEvent{Type: api.RunLost, Step: fmt.Sprintf("%d bytes of %s, because the link to the guest was away for too long", bytes, stream)})
}

// end notes how the run ended. err beside a result says what is not in order; alone
// it is why nothing was begun.
func (r *run) end(res session.Result, err error, now time.Time) api.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := &r.view
	v.Ended, v.RetryMS = now.UTC(), res.RetryAfter.Milliseconds()
	v.Revision = cmp.Or(res.Revision, v.Revision)
	switch res.Outcome {
	case session.Completed:
		v.State = api.RunCompleted
	case session.Conflict:
		v.State = api.RunConflict
	case session.LeaseLost:
		v.State = api.RunLeaseLost
	case session.Failed:
		v.State = api.RunFailed
	default:
		v.State = api.RunFailed
	}
	v.ExitCode = r.exitCode(res.Cause)
	if v.State != api.RunCompleted {
		v.Error = r.why(res, err)
	}
	if err != nil && res.Outcome != "" {
		v.Warnings = append(v.Warnings, oneLine(err))
	}
	if res.Warnings != nil {
		v.Warnings = append(v.Warnings, strings.Split(res.Warnings.Error(), "\n")...)
	}
	if v.State == api.RunCompleted && r.output != nil {
		v.Outputs = counted(*r.output)
	}
	if v.State != api.RunCompleted || r.req.Keep != api.KeepMachine {
		v.Desktop = "" // it is gone
	}
	return r.copied()
}

// counted are outputs in the words of the API.
func counted(c session.Candidate) *api.Outputs {
	return &api.Outputs{ID: c.ID, Files: int(number(c.Metadata["files"])), Bytes: number(c.Metadata["bytes"])}
}

// number reads a number of a candidate that was made here, or read again.
func number(v any) int64 {
	switch n := v.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case json.Number:
		i, _ := n.Int64() // one that is none counts nothing
		return i
	}
	return 0
}

// exitCode is the command's; nil when it did not come to an end. r.mu is held.
func (r *run) exitCode(cause error) *int {
	if e, ok := errors.AsType[*harness.ExitError](cause); ok {
		return &e.Code
	}
	if r.exited {
		return new(int)
	}
	return nil
}

// why says in the words of the API why a run did not complete. r.mu is held.
func (r *run) why(res session.Result, err error) *api.Error {
	cause := res.Cause
	if res.Outcome == "" {
		cause = err
	}
	return r.named(res, cause)
}

func (r *run) named(res session.Result, cause error) *api.Error {
	if exit, ok := errors.AsType[*harness.ExitError](cause); ok {
		exit = &harness.ExitError{Command: r.req.Argv[0], Code: exit.Code, Signal: exit.Signal}
		return api.Errorf(api.CodePrecondition, "%v: what it left since its last publication does not count", exit)
	}
	if e, ok := errors.AsType[*packages.Error](cause); ok {
		return api.Errorf(api.CodePrecondition, "%v", e)
	}
	if missing, ok := errors.AsType[*session.CapabilityError](cause); ok {
		return api.Errorf(api.CodeUnsupported, "%v", missing)
	}
	switch {
	case res.Outcome == session.Conflict:
		e := api.Errorf(api.CodeConflict, "workspace %s: %s", r.req.Workspace, oneLine(cause))
		e.Retryable = true
		return e
	case errors.Is(cause, session.ErrSandboxLost):
		return api.Errorf(api.CodeMachineFailed, "%s", oneLine(cause))
	case r.cancelled:
		return api.Errorf(api.CodeCancelled, "it was cancelled: nothing since the last publication counts")
	case errors.Is(cause, session.ErrCorrupt):
		return api.Errorf(api.CodeInternal, "%s", oneLine(cause))
	case res.Outcome == session.LeaseLost && errors.Is(cause, context.Canceled):
		return api.Errorf(api.CodeGuestUnavail, "the daemon was stopped meanwhile: nothing since the last publication counts")
	case res.Outcome == session.LeaseLost:
		e := api.Errorf(api.CodeConflict, "%s", oneLine(cause))
		e.Hint = "run it again: what others have published meanwhile is there"
		return e
	}
	if e, ok := errors.AsType[*input.Error](cause); ok {
		c := *fault.At(input.Stage, e.Err)
		c.Detail = "input " + e.Name + ": " + c.Detail
		return &c
	}
	c := *fault.From(cause)
	return &c
}

// oneLine is the text of errors that were joined.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
