// Package system sets what belongs to the guest as a machine: clock, entropy,
// hostname, mounts, power, and the generation that tells one clone from
// another.
package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// Kernel is what the service asks of the operating system. Each method may be
// called again with the same arguments.
type Kernel interface {
	SetClock(now time.Time) error
	Reseed(entropy []byte) error
	SetHostname(name string) error
	// Mount puts device at dir, which exists. The file system then belongs to
	// uid and gid if it was root's and empty.
	Mount(device, dir string, owner Owner) error
	Power(mode string) error
	Info() (guest.Info, error)
}

// Owner is a user and a group by number.
type Owner struct{ UID, GID int }

// Config of a Service. Kernel is required.
type Config struct {
	Kernel     Kernel
	Logger     *slog.Logger // nil: silent
	Generation string       // file; default /run/deskfork/generation
	Workspace  string       // directory; default /workspace
	// BootTimes runs once the boot is over and says how long it took; nil:
	// unknown.
	BootTimes func(context.Context) (string, error)
}

// Service serves the system.
type Service struct {
	cfg Config
	log *slog.Logger

	mu   sync.Mutex
	boot string
}

// New makes a Service.
func New(cfg Config) *Service {
	cfg.Generation = cmp.Or(cfg.Generation, "/run/deskfork/generation")
	cfg.Workspace = cmp.Or(cfg.Workspace, "/workspace")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, log: cfg.Logger}
}

// Routes are the operations of the service.
func (s *Service) Routes() mux.Router {
	return mux.Router{
		guest.OpSetClock: mux.Typed(func(_ context.Context, _ *mux.Call, p guest.ClockParams) (any, error) {
			return nil, s.setClock(p.Now)
		}),
		guest.OpReseed: mux.Typed(func(_ context.Context, _ *mux.Call, p guest.ReseedParams) (any, error) {
			return nil, s.reseed(p.Entropy)
		}),
		guest.OpHostname: mux.Typed(func(_ context.Context, _ *mux.Call, p guest.HostnameParams) (any, error) {
			return nil, s.setHostname(p.Name)
		}),
		guest.OpPower: mux.Typed(s.power),
		guest.OpInfo:  mux.Typed(s.info),
	}
}

func invalid(message string) error { return &guest.Error{Code: guest.CodeInvalid, Message: message} }

func (s *Service) setClock(now time.Time) error {
	if now.Year() < 2000 || now.Year() > 2200 {
		return invalid(fmt.Sprintf("set clock: %s is not a plausible time", now))
	}
	if err := s.cfg.Kernel.SetClock(now); err != nil {
		return fmt.Errorf("set clock: %w", err)
	}
	return nil
}

func (s *Service) reseed(entropy []byte) error {
	const least, most = 32, 4096
	if len(entropy) < least || len(entropy) > most {
		return invalid(fmt.Sprintf("reseed: give %d to %d bytes, not %d", least, most, len(entropy)))
	}
	if err := s.cfg.Kernel.Reseed(entropy); err != nil {
		return fmt.Errorf("reseed: %w", err)
	}
	return nil
}

func (s *Service) setHostname(name string) error {
	// RFC 1123 labels; the kernel takes 64 bytes.
	label := regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)
	for part := range strings.SplitSeq(name, ".") {
		if len(name) > 64 || !label.MatchString(part) {
			return invalid(fmt.Sprintf("set hostname: %q is not a hostname", name))
		}
	}
	if err := s.cfg.Kernel.SetHostname(name); err != nil {
		return fmt.Errorf("set hostname: %w", err)
	}
	return nil
}

func (s *Service) power(_ context.Context, c *mux.Call, p guest.PowerParams) (any, error) {
	if p.Mode != guest.PowerOff && p.Mode != guest.PowerReboot {
		return nil, invalid(fmt.Sprintf("power mode %q is neither off nor reboot", p.Mode))
	}
	if err := c.Reply(nil); err != nil {
		return nil, err
	}
	s.log.Info("ending the guest", "mode", p.Mode)
	if err := s.cfg.Kernel.Power(p.Mode); err != nil {
		s.log.Error("guest does not end", "mode", p.Mode, "err", err)
	}
	return nil, nil
}

func (s *Service) info(ctx context.Context, _ *mux.Call, _ struct{}) (guest.Info, error) {
	info, err := s.cfg.Kernel.Info()
	if err != nil {
		return info, err
	}
	gen, err := os.ReadFile(s.cfg.Generation)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return info, fmt.Errorf("read generation: %w", err)
	}
	info.Generation = strings.TrimSpace(string(gen))
	info.Boot = s.bootTimes(ctx)
	return info, nil
}

// bootTimes is empty as long as nothing is known; what is known stays.
func (s *Service) bootTimes(ctx context.Context) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boot != "" || s.cfg.BootTimes == nil {
		return s.boot
	}
	const enough = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, enough)
	defer cancel()
	out, err := s.cfg.BootTimes(ctx)
	if err != nil {
		s.log.Debug("boot times are not known yet", "err", err)
		return ""
	}
	s.boot = strings.TrimSpace(out)
	return s.boot
}

// Prepare does the machine's part of a handshake. The error names the step; a
// second call with the same handshake changes nothing.
func (s *Service) Prepare(h guest.Handshake, owner Owner) error {
	if !h.Now.IsZero() {
		if err := s.setClock(h.Now); err != nil {
			return err
		}
	}
	if len(h.Entropy) > 0 {
		if err := s.reseed(h.Entropy); err != nil {
			return err
		}
	}
	if h.Generation != "" {
		if err := s.setGeneration(h.Generation); err != nil {
			return fmt.Errorf("write generation: %w", err)
		}
	}
	if h.Workspace != "" {
		if err := s.mount(h.Workspace, owner); err != nil {
			return fmt.Errorf("mount workspace: %w", err)
		}
	}
	return nil
}

func (s *Service) setGeneration(gen string) error {
	if err := os.MkdirAll(filepath.Dir(s.cfg.Generation), 0o755); err != nil {
		return err
	}
	temp := s.cfg.Generation + ".new"
	if err := os.WriteFile(temp, []byte(gen+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, s.cfg.Generation)
}

func (s *Service) mount(device string, owner Owner) error {
	if !filepath.IsAbs(device) || filepath.Clean(device) != device {
		return invalid(fmt.Sprintf("%q is not the full path of a block device", device))
	}
	if err := os.MkdirAll(s.cfg.Workspace, 0o755); err != nil {
		return err
	}
	return s.cfg.Kernel.Mount(device, s.cfg.Workspace, owner)
}
