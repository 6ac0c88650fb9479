package guestd

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/account"
	"github.com/deskfork/deskfork/internal/guestd/system"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// handshake prepares the guest, step by step. Every step may be repeated, and
// the new token comes last, so that a host whose handshake failed can try again.
func (s *Server) handshake(ctx context.Context, c *mux.Call, h guest.Handshake) (guest.Handshaken, error) {
	began := time.Now()
	if !h.Now.IsZero() { // first: it grows old
		if err := s.system.Adjust(h.Now); err != nil {
			return guest.Handshaken{}, err
		}
	}
	select {
	case s.shaking <- struct{}{}:
		defer func() { <-s.shaking }()
	case <-ctx.Done():
		return guest.Handshaken{}, context.Cause(ctx)
	}
	done, err := s.renew(ctx, c, h)
	if err != nil {
		return guest.Handshaken{}, err
	}
	done.ClockState = s.system.State(began)
	return done, nil
}

func (s *Server) renew(ctx context.Context, c *mux.Call, h guest.Handshake) (done guest.Handshaken, err error) {
	name := h.User
	if name == "" {
		name = s.defaultUser()
	}
	u, err := account.Lookup(name)
	if err != nil {
		return done, err
	}
	if done.UUID, err = s.system.Reseed(h.Entropy); err != nil {
		return done, err
	}
	if done.Generation, err = s.system.Generation(); err != nil {
		return done, err
	}
	if h.Generation != "" && h.Generation != done.Generation {
		s.cutOthers(ctx, c.Session())
		s.system.LetGo()
		s.system.Melt()
		if err := s.system.SetGeneration(h.Generation); err != nil {
			return done, err
		}
		done.Generation, done.Renewed = h.Generation, true
	}
	owner := system.Owner{UID: int(u.UID), GID: int(u.GID)}
	if done.Workspace, err = s.system.Mount(h.Workspace, h.WorkspaceBytes, owner); err != nil {
		return done, err
	}
	if s.adopt(h) {
		s.cutOthers(ctx, c.Session())
	}
	if done.Renewed {
		s.log.Info("generation began", "generation", done.Generation)
		s.emit(guest.EventGeneration, guest.GenerationEvent{Generation: done.Generation})
	}
	return done, nil
}

// adopt takes the defaults and the token of a handshake over, and reports
// whether the token is another one than before.
func (s *Server) adopt(h guest.Handshake) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.User != "" {
		s.user = h.User
	}
	if h.Env != nil {
		s.env = maps.Clone(h.Env)
	}
	if h.Token == "" || h.Token == s.token {
		return false
	}
	s.token = h.Token
	return true
}

// cutOthers drops every link but one, those that are just being opened too, and
// waits a moment until their calls have let go of what they held: execs are
// detached then, and wait for nobody.
func (s *Server) cutOthers(ctx context.Context, but *mux.Session) {
	const enough = time.Second
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	s.mu.Lock()
	s.epoch++
	old := maps.Clone(s.sessions)
	s.mu.Unlock()
	delete(old, but)
	for session := range old {
		session.Close(fmt.Errorf("the machine began another life: %w", mux.ErrPeerGone))
	}
	for _, ended := range old {
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
	}
}
