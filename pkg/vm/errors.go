package vm

import (
	"errors"
	"fmt"
	"strings"
)

// Sentinels that callers branch on.
var (
	ErrExists        = errors.New("machine exists")
	ErrNotFound      = errors.New("machine not found")
	ErrGone          = errors.New("machine has ended")
	ErrGuestShutdown = errors.New("guest switched itself off")
	ErrNoSpace       = errors.New("no space left")
	ErrInvalid       = errors.New("invalid machine spec")
	ErrNoNetwork     = errors.New("machine has no network")
	ErrLeftover      = errors.New("something of a machine is left")
	// ErrHostClass: the snapshot was sealed on another kind of host.
	ErrHostClass = errors.New("snapshot does not fit this host")
	// ErrCorrupt: a sealed file is not what it was.
	ErrCorrupt = errors.New("snapshot is damaged")
	// ErrUnsound: a clone was loaded, but must not be used.
	ErrUnsound = errors.New("clone is not sound")
)

// ExitError says how a hypervisor process ended on its own.
type ExitError struct {
	Stage  string // what was being done, e.g. "start", "run"
	Status string // e.g. "exit status 1", "signal: killed"
	Stderr string // the tail of its standard error
}

func (e *ExitError) Error() string {
	s := fmt.Sprintf("hypervisor ended at %s: %s", e.Stage, e.Status)
	if t := strings.TrimSpace(e.Stderr); t != "" {
		s += ": " + t
	}
	return s
}

// StageError says in which step of Create or Destroy something went wrong.
type StageError struct {
	Stage string // e.g. "system-disk", "spawn", "qmp"
	Err   error
}

func (e *StageError) Error() string { return e.Stage + ": " + e.Err.Error() }

// Unwrap gives the cause.
func (e *StageError) Unwrap() error { return e.Err }
