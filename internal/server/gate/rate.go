package gate

import (
	"net/netip"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
)

// maxRates bounds the clients that are remembered.
const maxRates = 4096

// Rate bounds how often a client may try something.
type Rate struct {
	burst int
	pause time.Duration
	now   func() time.Time

	mu sync.Mutex
	by map[netip.Addr]time.Time // guarded by mu; when the client's burst is whole again
}

// NewRate lets each client try burst times at once, and once more after each pause.
func NewRate(burst int, pause time.Duration, now func() time.Time) *Rate {
	return &Rate{burst: burst, pause: pause, now: now, by: map[netip.Addr]time.Time{}}
}

// Take counts an attempt; the error has the code rate_limited. Clients of one IPv6
// network are one.
func (r *Rate) Take(client netip.Addr) error {
	if client.Is6() {
		if p, err := client.Prefix(64); err == nil {
			client = p.Addr()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	whole := r.by[client]
	if whole.Before(now) {
		whole = now
	}
	if whole.Sub(now) > time.Duration(r.burst-1)*r.pause {
		return api.Errorf(api.CodeRateLimited, "too many attempts; try again in %s", r.pause)
	}
	if len(r.by) >= maxRates {
		for c, t := range r.by {
			if t.Before(now) {
				delete(r.by, c)
			}
		}
		if len(r.by) >= maxRates {
			return api.Errorf(api.CodeRateLimited, "too many clients try; try again in %s", r.pause)
		}
	}
	r.by[client] = whole.Add(r.pause)
	return nil
}
