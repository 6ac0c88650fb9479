package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/desktop"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/image"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/workspace"
)

func TestFrom(t *testing.T) {
	tests := []struct {
		err  error
		code api.Code
	}{
		{context.DeadlineExceeded, api.CodeDeadline},
		{context.Canceled, api.CodeCancelled},
		{admission.ErrNoCapacity, api.CodeNoCapacity},
		{store.ErrTaken, api.CodeConflict},
		{store.ErrNotFound, api.CodeNotFound},
		{vm.ErrExists, api.CodeConflict},
		{vm.ErrNotFound, api.CodeNotFound},
		{vm.ErrGone, api.CodePrecondition},
		{vm.ErrGuestShutdown, api.CodePrecondition},
		{vm.ErrNoSpace, api.CodeNoSpace},
		{vm.ErrInvalid, api.CodeInvalid},
		{vm.ErrNoNetwork, api.CodeUnsupported},
		{fmt.Errorf("%w: %w", vm.ErrCorrupt, vm.ErrInvalid), api.CodeImageCorrupt},
		{fmt.Errorf("%w: %w", workspace.ErrCorrupt, workspace.ErrInvalid), api.CodeImageCorrupt},
		{&vm.ExitError{Stage: "run"}, api.CodeMachineFailed},
		{&vm.StageError{Stage: "spawn", Err: vm.ErrNoSpace}, api.CodeNoSpace},
		{image.ErrNotFound, api.CodeNotFound},
		{image.ErrInUse, api.CodeConflict},
		{image.ErrCorrupt, api.CodeImageCorrupt},
		{image.ErrBadReference, api.CodeInvalid},
		{image.ErrNoSpace, api.CodeNoSpace},
		{desktop.ErrOutside, api.CodeInvalid},
		{desktop.ErrUnknownKey, api.CodeInvalid},
		{desktop.ErrNoDisplay, api.CodeNoDisplay},
		{desktop.ErrDisconnect, api.CodeGuestUnavail},
		{desktop.ErrUnsupported, api.CodeUnsupported},
		{client.ErrLinkLost, api.CodeGuestUnavail},
		{client.ErrClosed, api.CodeGuestUnavail},
		{&blob.Error{Op: "put", Err: syscall.ECONNREFUSED, Retry: true}, api.CodeDeadline},
		{&blob.Error{Op: "put", Err: blob.ErrFull}, api.CodeNoSpace},
		{&blob.Error{Op: "put", Err: errors.New("access denied")}, api.CodeInternal},
		{fs.ErrNotExist, api.CodeNotFound},
		{errors.New("something else"), api.CodeInternal},
		{api.Errorf(api.CodeTooLarge, "big"), api.CodeTooLarge},
	}
	for _, tt := range tests {
		wrapped := fmt.Errorf("do a thing: %w", tt.err)
		e := fault.From(wrapped)
		if e.Code != tt.code || e.Status != tt.code.HTTPStatus() || e.Detail == "" {
			t.Errorf("%v is %+v, want code %s", tt.err, e, tt.code)
		}
	}
	if fault.From(nil) != nil {
		t.Error("no error became one")
	}
}

func TestGuestCodes(t *testing.T) {
	codes := []guest.Code{
		guest.CodeInvalid, guest.CodeNotFound, guest.CodeExists, guest.CodePermission, guest.CodeNoSpace, guest.CodeNotDir,
		guest.CodeIsDir, guest.CodeNotEmpty, guest.CodeNoDisplay, guest.CodeUnsupported, guest.CodeBusy, guest.CodeDeadline,
		guest.CodeCancelled, guest.CodeGone, guest.CodeRefused, guest.CodeInternal, "from the future",
	}
	for _, c := range codes {
		e := fault.From(&guest.Error{Code: c, Message: "m"})
		if !slices.Contains(api.Codes(), e.Code) || e.Code == api.CodeInternal {
			t.Errorf("guest code %s is %s", c, e.Code)
		}
	}
}

func TestStages(t *testing.T) {
	e := fault.From(fmt.Errorf("create: %w", &vm.StageError{Stage: "system-disk", Err: vm.ErrNoSpace}))
	if e.Stage != "system-disk" {
		t.Errorf("stage is %q", e.Stage)
	}
	if again := fault.At("other", e); again.Stage != "system-disk" {
		t.Errorf("stage became %q", again.Stage)
	}
	if first := fault.At("upload", vm.ErrGone); first.Stage != "upload" {
		t.Errorf("stage is %q", first.Stage)
	}
}
