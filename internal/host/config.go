package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// DatabaseName is the file of the host's state in the data directory.
const DatabaseName = "deskfork.db"

// Config is what a host is made of.
type Config struct {
	// DataDir holds the database and the token file. It exists. Required.
	DataDir string
	// Version is that of the program.
	Version string
	// Provider starts machines. Required.
	Provider vm.Provider
	// Images finds what machines boot from. Required.
	Images Images
	// Open makes the live parts of a machine; it starts nothing. Required.
	// adapter.Opener is the real one.
	Open func(OpenConfig) (*live.Desktop, error)
	// Lease decides who may send input. Nil: one implicit holder.
	Lease Lease
	// Limits are the deadlines of the stages. Zero: boot.DefaultLimits.
	Limits boot.Limits
	// Usage reads what the host has left. Nil: the kernel's numbers.
	Usage func() (admission.Usage, error)
	// Admission holds sizes kept free; Usage in it is ignored.
	Admission admission.Config
	// Logger is narrowed for each desktop. Nil: nothing is logged.
	Logger *slog.Logger
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
}

// OpenConfig is what live parts are made from.
type OpenConfig struct {
	Desktop string
	Machine vm.Machine
	// Token authenticates the host to guestd.
	Token    string
	Version  string // of the host
	Keyboard string // the guest's layout as far as is known; empty: us
	Logger   *slog.Logger
}

// Image is what a desktop boots from.
type Image struct {
	api.Image

	Boot     vm.Boot
	System   vm.Disk     // Base and BaseFormat set
	Display  api.Display // the screen it was built for
	Keyboard string      // the layout it was built for; empty: us
	User     string      // whose desktop it is; empty: agent
}

// Images finds and removes images.
type Images interface {
	// Resolve finds an image by name, name:tag or digest and proves that its
	// files are there.
	Resolve(ctx context.Context, ref string) (Image, error)
	List(ctx context.Context) ([]api.Image, error)
	// Remove removes an image, or takes a tag off it. Before an image goes inUse
	// is asked who uses it; an answer ends the removal with nothing changed.
	Remove(ctx context.Context, ref string, inUse func(digest string) string) error
}

// Lease decides who may send input, clipboard and window calls to a desktop.
type Lease interface {
	// Check answers nil, or an error with the code control_held when holder does
	// not hold the lease of that epoch. Epoch 0 means the present one.
	Check(ctx context.Context, desktop, holder string, epoch uint64) error
}

// implicitEpoch is the only epoch there is while nobody can take control.
const implicitEpoch = 1

// implicitLease lets everybody in under one epoch.
type implicitLease struct{}

// Check implements Lease.
func (implicitLease) Check(_ context.Context, _, _ string, epoch uint64) error {
	if epoch == 0 || epoch == implicitEpoch {
		return nil
	}
	return api.Errorf(api.CodeControlHeld, "the control lease is in epoch %d, not %d", implicitEpoch, epoch)
}

func (c Config) validate() error {
	var errs []error
	if !filepath.IsAbs(c.DataDir) {
		errs = append(errs, fmt.Errorf("data directory %q is not absolute", c.DataDir))
	}
	if c.Provider == nil {
		errs = append(errs, errors.New("no provider of machines"))
	}
	if c.Images == nil {
		errs = append(errs, errors.New("no image store"))
	}
	if c.Open == nil {
		errs = append(errs, errors.New("no way to reach guests"))
	}
	return errors.Join(errs...)
}

func (c *Config) setDefaults() {
	if c.Lease == nil {
		c.Lease = implicitLease{}
	}
	if c.Limits == (boot.Limits{}) {
		c.Limits = boot.DefaultLimits()
	}
	if c.Usage == nil {
		dir := c.DataDir
		c.Usage = func() (admission.Usage, error) { return admission.HostUsage(dir) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Version == "" {
		c.Version = "devel"
	}
}
