package desk

import (
	"context"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/pkg/vm"
)

// Usage hears of the turns in a machine's life. Its methods are told of things
// that have happened: they fail for nobody. All but Paused wait for nothing.
type Usage interface {
	// Started says that a machine is a desktop's from now on, and runs.
	Started(row store.Desktop, m vm.Machine)
	// Paused and Resumed say that its vCPUs stand still, or run again.
	Paused(inc vm.Incarnation)
	Resumed(inc vm.Incarnation)
	// Ended says that it has ended, or is the desktop's no more. It may be said of
	// any machine, and again.
	Ended(inc vm.Incarnation)
	// Listen hears from the guest of a machine whether it browses, until ctx ends.
	Listen(ctx context.Context, inc vm.Incarnation, w live.Windows)
}
