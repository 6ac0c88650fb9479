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
