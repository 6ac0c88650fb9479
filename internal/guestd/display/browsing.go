package display

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// browsing is what the helper has said of browsers. Without a helper nothing is
// open: nobody would say when it is closed.
type browsing struct {
	mu      sync.Mutex
	open    bool          // guarded by mu
	changed chan struct{} // guarded by mu; closed and replaced at each change
}

func newBrowsing() *browsing { return &browsing{changed: make(chan struct{})} }

func (b *browsing) set(open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open != open {
		b.open = open
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

func (b *browsing) now() (open bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.changed
}

// told takes what the helper says unasked; what this guestd does not know is
// passed over.
func (s *Supervisor) told(m guest.HelperMessage) {
	if m.Op != guest.OpBrowsing {
		return
	}
	var now guest.Browsing
	if err := json.Unmarshal(m.Result, &now); err != nil {
		s.log.Warn("desktop helper told nonsense", "op", m.Op, "err", err)
		return
	}
	s.browsing.set(now.Open)
}

// follow serves OpBrowsing until the caller closes the stream. One that reads
// slowly is told less often, and at last what is.
func (s *Supervisor) follow(ctx context.Context, c *mux.Call, _ struct{}) (any, error) {
	if err := c.Reply(nil); err != nil {
		return nil, err
	}
	lines := json.NewEncoder(c.Streams[0])
	for {
		open, changed := s.browsing.now()
		if err := lines.Encode(guest.Browsing{Open: open}); err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
