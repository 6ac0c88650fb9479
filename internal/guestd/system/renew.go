package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// The steps of a handshake. Each may be repeated; each error names its step.

// Adjust sets the clock to now. A clock that is ahead by no more than what a
// message may have been on its way is left alone: it shall not go back for that.
func (s *Service) Adjust(now time.Time) error {
	const delivery = 20 * time.Millisecond
	if ahead := s.cfg.Kernel.Clock().Sub(now); ahead >= 0 && ahead <= delivery {
		return nil
	}
	return s.setClock(now)
}

func (s *Service) setClock(now time.Time) error {
	if now.Year() < 2000 || now.Year() > 2200 {
		return invalid(fmt.Sprintf("set clock: %s is not a plausible time", now))
	}
	if err := s.cfg.Kernel.SetClock(now); err != nil {
		return fmt.Errorf("set clock: %w", err)
	}
	return nil
}

// clock serves guest.OpSetClock.
func (s *Service) clock(_ context.Context, _ *mux.Call, p guest.ClockParams) (guest.ClockState, error) {
	began := time.Now()
	switch {
	case p.Step != 0 && !p.Now.IsZero():
		return guest.ClockState{}, invalid("set clock: give a time or a step, not both")
	case p.Step != 0:
		if err := s.setClock(s.cfg.Kernel.Clock().Add(p.Step)); err != nil {
			return guest.ClockState{}, err
		}
	case !p.Now.IsZero():
		if err := s.setClock(p.Now); err != nil {
			return guest.ClockState{}, err
		}
	}
	return s.State(began), nil
}

// State is the clock at this moment, in an answer to a request that came at
// began.
func (s *Service) State(began time.Time) guest.ClockState {
	return guest.ClockState{Clock: s.cfg.Kernel.Clock().UTC(), Served: time.Since(began)}
}

func (s *Service) reseed(entropy []byte) (uuid string, err error) {
	const least, most = 32, 4096
	if len(entropy) < least || len(entropy) > most {
		return "", invalid(fmt.Sprintf("reseed: give %d to %d bytes, not %d", least, most, len(entropy)))
	}
	if uuid, err = s.cfg.Kernel.Reseed(entropy); err != nil {
		return "", fmt.Errorf("reseed: %w", err)
	}
	return uuid, nil
}

// Reseed gives entropy to the kernel, if there is any, and returns a UUID that
// the kernel drew afterwards.
func (s *Service) Reseed(entropy []byte) (uuid string, err error) {
	if len(entropy) > 0 {
		return s.reseed(entropy)
	}
	if uuid, err = s.cfg.Kernel.Reseed(nil); err != nil {
		return "", fmt.Errorf("draw UUID: %w", err)
	}
	return uuid, nil
}

// Generation reads the present generation; empty before the first.
func (s *Service) Generation() (string, error) {
	gen, err := os.ReadFile(s.cfg.Generation)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read generation: %w", err)
	}
	return strings.TrimSpace(string(gen)), nil
}

// SetGeneration replaces the file as a whole, unless it says gen already.
func (s *Service) SetGeneration(gen string) error {
	if strings.ContainsAny(gen, "\n\r") || strings.TrimSpace(gen) != gen || len(gen) > 255 {
		return invalid(fmt.Sprintf("write generation: %.80q is not one short line", gen))
	}
	if old, err := s.Generation(); err == nil && old == gen {
		return nil
	}
	if err := s.replaceGeneration(gen); err != nil {
		return fmt.Errorf("write generation: %w", err)
	}
	return nil
}

func (s *Service) replaceGeneration(gen string) error {
	if err := os.MkdirAll(filepath.Dir(s.cfg.Generation), 0o755); err != nil {
		return err
	}
	temp := s.cfg.Generation + ".new"
	if err := os.WriteFile(temp, []byte(gen+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, s.cfg.Generation)
}

// LetGo releases keys and buttons that somebody held in the life before. A
// failure is logged: what hangs is a key, and a use of it mends that.
func (s *Service) LetGo() {
	if s.cfg.LetGo == nil {
		return
	}
	if err := s.cfg.LetGo(); err != nil {
		s.log.Warn("keys may be held that nobody holds", "err", err)
	}
}

// Mount mounts the workspace's device of so many bytes, unless it is mounted,
// and returns which one is. An empty device: it only tells.
func (s *Service) Mount(device string, bytes int64, owner Owner) (string, error) {
	if device != "" && (!filepath.IsAbs(device) || filepath.Clean(device) != device) {
		return "", invalid(fmt.Sprintf("mount workspace: %q is not the full path of a block device", device))
	}
	if err := os.MkdirAll(s.cfg.Workspace, 0o755); err != nil {
		return "", fmt.Errorf("mount workspace: %w", err)
	}
	mounted, err := s.cfg.Kernel.Mount(Volume{Device: device, Dir: s.cfg.Workspace, Bytes: bytes, Owner: owner})
	if err != nil {
		return mounted, fmt.Errorf("mount workspace: %w", err)
	}
	return mounted, nil
}
