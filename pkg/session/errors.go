package session

import (
	"errors"
	"fmt"
	"time"
)

// Sentinels that callers branch on.
var (
	// ErrLost: the fence is not held any more; nothing may be changed under it.
	ErrLost = errors.New("the fence is lost: another holder has the session, or the lease ran out")
	// ErrCorrupt: a stored row does not make sense. It is never taken for an
	// empty one.
	ErrCorrupt = errors.New("a stored row is damaged: restore the database, or remove the row by hand")
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("no such row")
	// ErrSandboxLost: the machine is gone.
	ErrSandboxLost = errors.New("the machine is gone")
	// ErrForeign: a lease or binding of another provider.
	ErrForeign = errors.New("made by another provider")
	// ErrUnsupported: the port does not do this.
	ErrUnsupported = errors.New("not supported")
)

// ConflictError says that somebody else holds the session.
type ConflictError struct {
	// Left is how long that holder's lease lasts unless it is renewed, by the
	// clock of the store; 0 when it is not known.
	Left time.Duration
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Left <= 0 {
		return "the session is held by another owner: try again"
	}
	return fmt.Sprintf("the session is held by another owner for up to %s: try again then", e.Left)
}

// CapabilityError says that a profile asks for what is not there. It comes before
// anything is allocated.
type CapabilityError struct {
	// Part is workspace, outputs, runtime checkpoint, harness, credential egress
	// or session inputs.
	Part   string
	Detail string
}

// Error implements error.
func (e *CapabilityError) Error() string { return "profile cannot be met: " + e.Part + ": " + e.Detail }
