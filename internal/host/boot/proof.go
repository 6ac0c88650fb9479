package boot

import (
	"fmt"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

// clockLimit is how far a clone's clock may be from the host's.
const clockLimit = 50 * time.Millisecond

// Proof is what a handshake is judged by.
type Proof struct {
	Now   func() time.Time
	UUIDs *UUIDs
	// Clone says that the guest goes on from a sealed instant: then its clock is
	// judged too.
	Clone bool
}

// check fails closed: two guests with the same randomness, or a clone that lives
// at another time, must not be used.
func (p Proof) check(h guest.Handshaken) error {
	if h.UUID != "" && !p.UUIDs.Take(h.UUID) {
		return fmt.Errorf("%w: its kernel drew the same random UUID as another guest's", vm.ErrUnsound)
	}
	if !p.Clone {
		return nil
	}
	if h.UUID == "" {
		return fmt.Errorf("%w: its guestd does not prove its randomness; rebuild the image", vm.ErrUnsound)
	}
	if h.ClockError() > clockLimit {
		return fmt.Errorf("%w: %s", vm.ErrUnsound, clockOff(h))
	}
	return nil
}

func clockOff(h guest.Handshaken) string {
	return fmt.Sprintf("its clock may be off by %s, more than %s", h.ClockError(), clockLimit)
}

// maxUUIDs bounds what is remembered.
const maxUUIDs = 100_000

// UUIDs remembers what guests' kernels drew. Safe for concurrent use.
type UUIDs struct {
	mu   sync.Mutex
	seen map[string]struct{} // guarded by mu
	ring []string            // guarded by mu; in the order of their coming
	next int                 // guarded by mu; place of the next one in a full ring
}

// Take remembers one, and says whether nobody had it before.
func (u *UUIDs) Take(id string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, dup := u.seen[id]; dup {
		return false
	}
	if u.seen == nil {
		u.seen = make(map[string]struct{})
	}
	if len(u.ring) < maxUUIDs {
		u.ring = append(u.ring, id)
	} else {
		delete(u.seen, u.ring[u.next])
		u.ring[u.next] = id
		u.next = (u.next + 1) % maxUUIDs
	}
	u.seen[id] = struct{}{}
	return true
}
