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

// Info returns the state of the guest's system.
func (s *System) Info(ctx context.Context) (info guest.Info, err error) {
	return info, s.c.call(ctx, guest.OpInfo, struct{}{}, &info)
}
