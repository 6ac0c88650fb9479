package client

import (
	"context"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// System sets what belongs to the guest as a machine.
type System struct{ c *Client }

// SetClock sets the guest's wall clock.
func (s *System) SetClock(ctx context.Context, now time.Time) error {
	return s.c.call(ctx, guest.OpSetClock, guest.ClockParams{Now: now}, nil)
}

// Reseed gives the guest's kernel 32 to 4096 random bytes and has it take a new
// key from them.
func (s *System) Reseed(ctx context.Context, entropy []byte) error {
	return s.c.call(ctx, guest.OpReseed, guest.ReseedParams{Entropy: entropy}, nil)
}

// SetHostname renames the guest.
func (s *System) SetHostname(ctx context.Context, name string) error {
	return s.c.call(ctx, guest.OpHostname, guest.HostnameParams{Name: name}, nil)
}

// Power ends the guest: guest.PowerOff or guest.PowerReboot. It returns when
// the guest has begun to.
func (s *System) Power(ctx context.Context, mode string) error {
	return s.c.call(ctx, guest.OpPower, guest.PowerParams{Mode: mode}, nil)
}

// Freeze holds back all writes to the workspace's file system, after what is
// under way has reached its disk, until Thaw or until they have been held back
// for so long, whatever becomes of the host. The same id again is the same freeze.
func (s *System) Freeze(ctx context.Context, p guest.FreezeParams) (f guest.Frozen, err error) {
	return f, s.c.call(ctx, guest.OpFreeze, p, &f)
}

// Thaw ends a freeze. It reports whether all writes were held back until now:
// if not, what was done in between is not one instant.
func (s *System) Thaw(ctx context.Context, id string) (held bool, err error) {
	var t guest.Thawed
	err = s.c.call(ctx, guest.OpThaw, guest.ThawParams{ID: id}, &t)
	return t.Held, err
}

// Info returns the state of the guest's system.
func (s *System) Info(ctx context.Context) (info guest.Info, err error) {
	return info, s.c.call(ctx, guest.OpInfo, struct{}{}, &info)
}
