// Package fault turns errors of every noun into the API's closed list of codes.
// There is one table, so that every door says the same.
package fault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/guest/mux"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/workspace"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
)

type row struct {
	err  error
	code api.Code
	hint string
}

// table is ordered: the first match wins.
func table() []row {
	return []row{
		{context.DeadlineExceeded, api.CodeDeadline, ""},
		{context.Canceled, api.CodeCancelled, ""},
		{admission.ErrNoCapacity, api.CodeNoCapacity, "delete a desktop, or ask for a smaller shape or workspace"},
		{store.ErrTaken, api.CodeConflict, "choose another name, or delete what has it"},
		{store.ErrKeyUsed, api.CodeConflict, "use a new Idempotency-Key for a new request"},
		{store.ErrNotFound, api.CodeNotFound, ""},
		{event.ErrLost, api.CodeRateLimited, "come back with Last-Event-ID"},
		{image.ErrBadReference, api.CodeInvalid, ""},
		{image.ErrNotFound, api.CodeNotFound, ""},
		{image.ErrInUse, api.CodeConflict, ""},
		{image.ErrCorrupt, api.CodeImageCorrupt, ""},
		{image.ErrBadManifest, api.CodeImageCorrupt, ""},
		{image.ErrBadRecipe, api.CodeInvalid, ""},
		{image.ErrNoSpace, api.CodeNoSpace, ""},
		{image.ErrMissingPackage, api.CodePrecondition, ""},
		{client.ErrLinkLost, api.CodeGuestUnavail, "whether the guest acted on the call is not known"},
		{client.ErrClosed, api.CodeGuestUnavail, ""},
		{mux.ErrUnauthorized, api.CodeGuestFailed, "the guest does not take this host's token"},
		{mux.ErrProtocol, api.CodeGuestFailed, "rebuild the image with this version's guestd"},
		{store.ErrMoved, api.CodeConflict, "publish under another name, or replace what is there"},
		{blob.ErrFull, api.CodeNoSpace, "make room in the blob store; the desktop goes on meanwhile"},
		{workspace.ErrMissing, api.CodeImageCorrupt, "put the object back from a copy of the store, or choose an older checkpoint"},
		{workspace.ErrCorrupt, api.CodeImageCorrupt, "put the object back from a copy of the store, or choose an older checkpoint"},
		{seal.ErrKey, api.CodePrecondition, "start the host with the --blob-key that it was stored with"},
		{workspace.ErrInvalid, api.CodeInvalid, ""},
		{workspace.ErrEmpty, api.CodePrecondition, ""},
		{workspace.ErrCondemned, api.CodePrecondition, "it was swept away meanwhile; choose another checkpoint"},
		{session.ErrSandboxLost, api.CodeNotFound, ""},
		{session.ErrForeign, api.CodeConflict, "it belongs to whoever made it"},
		{session.ErrUnsupported, api.CodeUnsupported, ""},
		{session.ErrNotFound, api.CodeNotFound, ""},
		// Before what was found to be wrong in it.
		{vm.ErrCorrupt, api.CodeImageCorrupt, "remove the snapshot, and make another"},
		{vm.ErrInvalid, api.CodeInvalid, ""},
		{vm.ErrHostClass, api.CodePrecondition, "it was sealed on another kind of host; boot the image instead"},
		{vm.ErrUnsound, api.CodeGuestFailed, ""},
		{vm.ErrNoNetwork, api.CodeUnsupported, ""},
		{vm.ErrExists, api.CodeConflict, ""},
		{vm.ErrNotFound, api.CodeNotFound, ""},
		{vm.ErrGuestShutdown, api.CodePrecondition, "the guest switched itself off; create a new desktop"},
		{vm.ErrGone, api.CodePrecondition, "see the desktop's failure and its logs"},
		{vm.ErrNoSpace, api.CodeNoSpace, "free space where the data directory lies"},
		{desktop.ErrOutside, api.CodeInvalid, "points are pixels of the screen, or of the image named by image_width"},
		{desktop.ErrUnknownKey, api.CodeInvalid, "use X11 names such as Return, or a single character"},
		{desktop.ErrNoDisplay, api.CodeNoDisplay, ""},
		{desktop.ErrDisconnect, api.CodeGuestUnavail, ""},
		{desktop.ErrUnsupported, api.CodeUnsupported, ""},
		{errors.ErrUnsupported, api.CodeUnsupported, ""},
		{syscall.ENOSPC, api.CodeNoSpace, "free space where the data directory lies"},
		{syscall.EDQUOT, api.CodeNoSpace, "free space where the data directory lies"},
		{syscall.ECONNREFUSED, api.CodeRefused, ""},
		{fs.ErrNotExist, api.CodeNotFound, ""},
	}
}

// guestCodes maps the protocol's codes. What the guest calls a fault of the
// request is one of ours too.
func guestCode(c guest.Code) api.Code {
	switch c {
	case guest.CodeInvalid, guest.CodeNotDir, guest.CodeIsDir:
		return api.CodeInvalid
	case guest.CodeNotFound:
		return api.CodeNotFound
	case guest.CodeExists, guest.CodeNotEmpty:
		return api.CodeConflict
	case guest.CodePermission:
		return api.CodePermission
	case guest.CodeNoSpace:
		return api.CodeNoSpace
	case guest.CodeNoDisplay:
		return api.CodeNoDisplay
	case guest.CodeUnsupported:
		return api.CodeUnsupported
	case guest.CodeBusy:
		return api.CodePrecondition
	case guest.CodeDeadline:
		return api.CodeDeadline
	case guest.CodeCancelled:
		return api.CodeCancelled
	case guest.CodeGone:
		return api.CodePrecondition
	case guest.CodeRefused:
		return api.CodeRefused
	case guest.CodeInternal:
		return api.CodeGuestFailed
	}
	return api.CodeGuestFailed
}

// From turns any error into an API error; nil stays nil. An *api.Error keeps
// all it says.
func From(err error) *api.Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e
	}
	out := convert(err)
	if h := image.Hint(err); h != "" {
		out.Hint = h
	}
	if e, ok := errors.AsType[*vm.StageError](err); ok && out.Stage == "" {
		out.Stage = e.Stage
	}
	return out
}

func convert(err error) *api.Error {
	if e, ok := errors.AsType[*guest.Error](err); ok {
		return api.Errorf(guestCode(e.Code), "%s", err)
	}
	if e, ok := errors.AsType[*vm.ExitError](err); ok {
		out := api.Errorf(api.CodeMachineFailed, "hypervisor ended at %s: %s", e.Stage, e.Status)
		out.Stage, out.Log = e.Stage, e.Stderr
		return out
	}
	if blob.Retryable(err) {
		out := api.Errorf(api.CodeDeadline, "%s", err)
		out.Hint = "the blob store does not answer as it should; try again when it does, desktops go on meanwhile"
		return out
	}
	for _, r := range table() {
		if errors.Is(err, r.err) {
			out := api.Errorf(r.code, "%s", err)
			out.Hint = r.hint
			return out
		}
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return api.Errorf(api.CodeDeadline, "%s", err)
	}
	return api.Errorf(api.CodeInternal, "%s", err)
}

// At is From with the name of the stage that failed, unless err names one.
func At(stage string, err error) *api.Error {
	e := From(err)
	if e == nil || e.Stage != "" {
		return e
	}
	c := *e
	c.Stage = stage
	return &c
}

// Stage names the stage that an error belongs to, for callers that wrap.
func Stage(stage api.Stage, code api.Code, format string, args ...any) *api.Error {
	e := api.Errorf(code, format, args...)
	e.Stage = string(stage)
	return e
}

// NotFound is the error for a thing that a project does not have.
func NotFound(what, ref string) *api.Error {
	return api.Errorf(api.CodeNotFound, "%s", fmt.Sprintf("no %s %q in this project", what, ref))
}
