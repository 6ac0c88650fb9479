package adapter

import (
	"context"
	"sync/atomic"

	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/guest"
)

// plainLayout is the keyboard layout that the hypervisor's scancodes are named
// after.
const plainLayout = "us"

// layout remembers whether the guest's keyboard layout is another one than the
// hypervisor's: then keys are pressed inside the guest, by what they mean.
type layout struct {
	live.Session

	other *atomic.Bool
}

// SetKeyboard implements live.Session.
func (l layout) SetKeyboard(ctx context.Context, k guest.Keyboard) error {
	err := l.Session.SetKeyboard(ctx, k)
	if err == nil {
		l.other.Store(k.Layout != plainLayout || k.Variant != "")
	}
	return err
}
