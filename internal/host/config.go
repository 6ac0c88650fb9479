package host

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/pool"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/recording"
	"github.com/deskfork/deskfork/internal/host/shelf"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/internal/host/workspaces"
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
	Images shelf.Images
	// Open makes the live parts of a machine; it starts nothing. Required.
	// adapter.Opener is the real one.
	Open reach.Opener
	// Limits are the deadlines of the stages of a machine that boots. Zero:
	// boot.DefaultLimits.
	Limits boot.Limits
	// CloneLimits are those of a clone of a drawn desktop. Zero: boot.CloneLimits.
	CloneLimits boot.Limits
	// Pool bounds the desktops that are made before anybody asks. Zero: none are.
	Pool pool.Limits
	// Usage reads what the host has left. Nil: the kernel's numbers.
	Usage func() (admission.Usage, error)
	// Admission holds sizes kept free; Usage in it is ignored.
	Admission admission.Config
	// Blobs is where checkpoints of workspaces lie.
	Blobs workspaces.Blobs
	// Fences decide who may publish in a workspace. Required.
	Fences workspaces.Fences
	// Billing says how use is counted, kept and priced.
	Billing usage.Config
	// Recordings say how much of what is recorded is kept.
	Recordings recording.Limits
	// Logger is narrowed for each desktop. Nil: nothing is logged.
	Logger *slog.Logger
	// Now is the clock. Nil: time.Now.
	Now func() time.Time
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
	if c.Fences.Fences == nil || c.Fences.Publications == nil {
		errs = append(errs, errors.New("no fences of sessions"))
	}
	return errors.Join(errs...)
}

func (c *Config) setDefaults() {
	if c.Limits == (boot.Limits{}) {
		c.Limits = boot.DefaultLimits()
	}
	if c.CloneLimits == (boot.Limits{}) {
		c.CloneLimits = boot.CloneLimits()
	}
	for l, d := range map[*boot.Limits]boot.Limits{&c.Limits: boot.DefaultLimits(), &c.CloneLimits: boot.CloneLimits()} {
		l.Poll, l.Still = cmp.Or(l.Poll, d.Poll), cmp.Or(l.Still, d.Still)
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
