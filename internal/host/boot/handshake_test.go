package boot_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// slow is a link whose answers leave less and less unknown of the clock.
type slow struct {
	live.Link

	margins []time.Duration
	asked   int
}

func (s *slow) Handshake(context.Context, guest.Handshake) (guest.Handshaken, error) {
	margin := s.margins[min(s.asked, len(s.margins)-1)]
	s.asked++
	return guest.Handshaken{UUID: uuid.NewString(), Margin: margin}, nil
}

// TestClockIsReadAgain: on a busy host an answer may come too late to say how the
// clock of a clone goes. That is no proof against it, and none for it.
func TestClockIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shake := func(s *slow) error {
			step := boot.HandshakeStep(&live.Desktop{Link: s}, boot.CloneLimits(), boot.Wish{}, boot.Proof{Now: time.Now, UUIDs: new(boot.UUIDs), Clone: true})
			_, err := run(t.Context(), 1, step)
			return err
		}
		calm := &slow{margins: []time.Duration{62 * time.Millisecond, 90 * time.Millisecond, 3 * time.Millisecond}}
		if err := shake(calm); err != nil || calm.asked != 3 {
			t.Errorf("asked %d times, %v", calm.asked, err)
		}
		err := shake(&slow{margins: []time.Duration{51 * time.Millisecond}})
		if e := fault.From(err); e.Code != api.CodeGuestFailed || e.Stage != "handshake" || !strings.Contains(e.Detail, "its clock may be off by 51ms") {
			t.Errorf("got %+v", e)
		}
	})
}
