package access

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
)

// holds are the calls in progress under each token.
type holds struct {
	mu      sync.Mutex
	revoked uint64                                       // guarded by mu; how often a token was
	calls   map[string]map[*context.CancelCauseFunc]bool // guarded by mu; by token id
	tell    []func(id string)                            // guarded by mu
}

// OnRevoke makes f hear of each token that is revoked, by its id.
func (d *Desk) OnRevoke(f func(id string)) {
	d.holds.mu.Lock()
	defer d.holds.mu.Unlock()
	d.holds.tell = append(d.holds.tell, f)
}

// Enter is Authenticate for a call that may last: its context ends when the
// token is revoked, with a cause that says so. leave is called at its end.
func (d *Desk) Enter(ctx context.Context, secret string) (_ token.Principal, _ context.Context, leave func(), _ error) {
	for {
		before := d.holds.count()
		p, err := d.Authenticate(ctx, secret)
		if err != nil {
			return p, ctx, nil, err
		}
		held, cancel := context.WithCancelCause(ctx)
		if leave, ok := d.holds.add(p.TokenID, before, cancel); ok {
			return p, held, leave, nil
		}
		cancel(nil) // a token was revoked meanwhile: it may be this one
	}
}

func (h *holds) count() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.revoked
}

// add notes a call, unless a token was revoked since before was counted.
func (h *holds) add(id string, before uint64, cancel context.CancelCauseFunc) (leave func(), ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.revoked != before {
		return nil, false
	}
	if h.calls == nil {
		h.calls = make(map[string]map[*context.CancelCauseFunc]bool)
	}
	if h.calls[id] == nil {
		h.calls[id] = make(map[*context.CancelCauseFunc]bool)
	}
	call := &cancel
	h.calls[id][call] = true
	return func() {
		h.mu.Lock()
		delete(h.calls[id], call)
		if len(h.calls[id]) == 0 {
			delete(h.calls, id)
		}
		h.mu.Unlock()
		cancel(nil)
	}, true
}

// end ends the calls of a token that is no longer in the database.
func (h *holds) end(id string) {
	h.mu.Lock()
	h.revoked++
	calls, tell := slices.Collect(maps.Keys(h.calls[id])), h.tell
	delete(h.calls, id)
	h.mu.Unlock()
	for _, cancel := range calls {
		(*cancel)(api.Errorf(api.CodeUnauthorized, "the token was revoked"))
	}
	for _, f := range tell {
		f(id)
	}
}
