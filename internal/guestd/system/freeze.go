package system

import (
	"context"
	"fmt"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
)

// Freezer is an ability of a Kernel.
type Freezer interface {
	// Freeze writes out the file system mounted at dir and holds writes to it
	// back; it returns the device. Only what is a mount of its own is frozen.
	Freeze(dir string) (device string, err error)
	// Thaw lets writes go on. was says whether they were held back.
	Thaw(dir string) (was bool, err error)
}

// frozen is the freeze in force.
type frozen struct {
	id     string
	device string
	timer  *time.Timer
}

// Freezes reports whether this guest can.
func (s *Service) Freezes() bool {
	_, ok := s.cfg.Kernel.(Freezer)
	return ok
}

func (s *Service) freezer() (Freezer, error) {
	f, ok := s.cfg.Kernel.(Freezer)
	if !ok {
		return nil, &guest.Error{Code: guest.CodeUnsupported, Message: "this guest cannot freeze a file system"}
	}
	return f, nil
}

// Freeze serves guest.OpFreeze. The deadline is kept here and not by the host:
// it runs from when everything stands still, and does not ask who is listening.
func (s *Service) Freeze(ctx context.Context, p guest.FreezeParams) (guest.Frozen, error) {
	f, err := s.freezer()
	if err != nil {
		return guest.Frozen{}, err
	}
	if p.ID == "" || p.For <= 0 || p.For > guest.MaxFreeze {
		return guest.Frozen{}, invalid(fmt.Sprintf("freeze workspace: give an id and a time of up to %s, not %q and %s", guest.MaxFreeze, p.ID, p.For))
	}
	if err := s.alone(ctx); err != nil {
		return guest.Frozen{}, err
	}
	defer s.done()
	if s.frozen != nil {
		if s.frozen.id == p.ID {
			return guest.Frozen{Device: s.frozen.device}, nil
		}
		return guest.Frozen{}, &guest.Error{Code: guest.CodeBusy, Message: "freeze workspace: it is frozen by somebody else; try again"}
	}
	device, err := f.Freeze(s.cfg.Workspace)
	if err != nil {
		return guest.Frozen{}, fmt.Errorf("freeze workspace: %w", err)
	}
	now := &frozen{id: p.ID, device: device}
	now.timer = time.AfterFunc(p.For, func() { s.expire(now) })
	s.frozen = now
	if ctx.Err() != nil { // it took so long that nobody waits for it
		_, err := s.melt(f)
		return guest.Frozen{}, fmt.Errorf("freeze workspace: %w", errOr(err, context.Cause(ctx)))
	}
	return guest.Frozen{Device: device}, nil
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Thaw serves guest.OpThaw.
func (s *Service) Thaw(ctx context.Context, p guest.ThawParams) (guest.Thawed, error) {
	f, err := s.freezer()
	if err != nil {
		return guest.Thawed{}, err
	}
	if err := s.alone(ctx); err != nil {
		return guest.Thawed{}, err
	}
	defer s.done()
	if s.frozen == nil || s.frozen.id != p.ID {
		return guest.Thawed{}, nil
	}
	was, err := s.melt(f)
	return guest.Thawed{Held: was}, err
}

// expire ends a freeze whose host has not come back. A thaw that fails is tried
// again for as long as it takes: nothing else would.
func (s *Service) expire(old *frozen) {
	const again = time.Second
	s.freezing <- struct{}{}
	defer s.done()
	if s.frozen != old {
		return
	}
	f, err := s.freezer()
	if err == nil {
		_, err = s.melt(f)
	}
	if err != nil {
		s.frozen = old
		old.timer = time.AfterFunc(again, func() { s.expire(old) })
	}
	s.log.Warn("workspace thawed by its deadline", "err", err)
}

// Melt ends whatever freeze there is: the machine began another life, or this
// daemon begins or ends its own.
func (s *Service) Melt() {
	f, err := s.freezer()
	if err != nil {
		return
	}
	s.freezing <- struct{}{}
	defer s.done()
	if was, err := s.melt(f); was || err != nil {
		s.log.Warn("workspace was frozen and is thawed", "err", err)
	}
}

// melt is for the holder of the right to.
func (s *Service) melt(f Freezer) (was bool, err error) {
	if was, err = f.Thaw(s.cfg.Workspace); err != nil {
		return was, fmt.Errorf("thaw workspace: %w", err)
	}
	if s.frozen != nil {
		s.frozen.timer.Stop()
		s.frozen = nil
	}
	return was, nil
}

func (s *Service) alone(ctx context.Context) error {
	select {
	case s.freezing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *Service) done() { <-s.freezing }
