// Package system sets what belongs to the guest as a machine: clock, entropy,
// hostname, mounts, power, and the generation that tells one clone from
// another.
package system

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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
	Clock() time.Time
	SetClock(now time.Time) error
	// Reseed gives entropy to the generator, has it take a new key, and returns
	// a UUID drawn afterwards. No entropy: it only draws.
	Reseed(entropy []byte) (uuid string, err error)
	SetHostname(name string) error
	// Mount mounts v unless something is mounted there, and returns the device
	// that is. An empty device: it only tells.
	Mount(v Volume) (device string, err error)
	Power(mode string) error
	Info() (guest.Info, error)
}

// Owner is a user and a group by number.
type Owner struct{ UID, GID int }

// Volume is a device to mount.
type Volume struct {
	Device string
	Dir    string // exists
	Bytes  int64  // of the device; 0: not checked
	Owner  Owner  // of a file system that was root's and empty
}

// Config of a Service. Kernel is required.
type Config struct {
	Kernel     Kernel
	Logger     *slog.Logger // nil: silent
	Generation string       // file; default guest.GenerationPath
	Workspace  string       // directory; default /workspace
	// LetGo releases the keys that somebody held when this machine was another
	// one; nil: there are none.
	LetGo func() error
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

	freezing chan struct{} // holds one token: the right to freeze and thaw
	frozen   *frozen       // for the holder of that token; nil: nothing is
}

// New makes a Service.
func New(cfg Config) *Service {
	cfg.Generation = cmp.Or(cfg.Generation, guest.GenerationPath)
	cfg.Workspace = cmp.Or(cfg.Workspace, "/workspace")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{cfg: cfg, log: cfg.Logger, freezing: make(chan struct{}, 1)}
}

// Routes are the operations of the service.
func (s *Service) Routes() mux.Router {
	return mux.Router{
		guest.OpSetClock: mux.Typed(s.clock),
		guest.OpReseed: mux.Typed(func(_ context.Context, _ *mux.Call, p guest.ReseedParams) (any, error) {
			_, err := s.reseed(p.Entropy)
			return nil, err
		}),
		guest.OpHostname: mux.Typed(func(_ context.Context, _ *mux.Call, p guest.HostnameParams) (any, error) {
			return nil, s.setHostname(p.Name)
		}),
		guest.OpPower: mux.Typed(s.power),
		guest.OpInfo:  mux.Typed(s.info),

		guest.OpFreeze: mux.Typed(func(ctx context.Context, _ *mux.Call, p guest.FreezeParams) (any, error) { return s.Freeze(ctx, p) }),
		guest.OpThaw:   mux.Typed(func(ctx context.Context, _ *mux.Call, p guest.ThawParams) (any, error) { return s.Thaw(ctx, p) }),
	}
}

func invalid(message string) error { return &guest.Error{Code: guest.CodeInvalid, Message: message} }

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
	if info.Generation, err = s.Generation(); err != nil {
		return info, err
	}
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
