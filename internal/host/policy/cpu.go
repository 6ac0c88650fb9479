package policy

import (
	"time"

	"github.com/deskfork/deskfork/internal/x/proc"
	"github.com/deskfork/deskfork/pkg/vm"
)

// CPUTime is what a machine has taken of the cores; zero where it is not known.
func CPUTime(info vm.Info) time.Duration {
	if info.CPUTime > 0 || info.PID <= 0 || info.State == vm.StateExited {
		return info.CPUTime
	}
	t, err := proc.CPUTime(info.PID)
	if err != nil {
		return 0
	}
	return t
}
