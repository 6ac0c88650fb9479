package hosttest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/host/reach"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
)

// Project is the project of a test's calls.
const Project = "default"

const gib = 1 << 30

// Fixture is a host and what it stands on. The parts outlive a restart.
type Fixture struct {
	Host     *host.Host
	Provider *Provider
	Images   *Images
	Screen   *Screen // of every desktop
	Input    *Input  // of every desktop
	Config   host.Config
	Sessions *sessiontest.Memory

	tb   testing.TB
	stop context.CancelFunc
	wait *sync.WaitGroup
	mu   sync.Mutex
	free admission.Usage
}

// New starts a host until the test ends. change adjusts its configuration.
func New(tb testing.TB, change ...func(*host.Config)) *Fixture {
	tb.Helper()
	f := &Fixture{
		tb: tb, wait: &sync.WaitGroup{}, Provider: NewProvider(tb), Images: &Images{}, Screen: NewScreen(), Input: &Input{},
		Sessions: sessiontest.NewMemory(),
		free:     admission.Usage{MemoryTotal: 24 * gib, MemoryAvailable: 20 * gib, DiskTotal: 200 * gib, DiskAvailable: 100 * gib},
	}
	f.Config = host.Config{
		DataDir: tb.TempDir(), Version: "test", Provider: f.Provider, Images: f.Images, Open: f.open,
		Limits: ample(boot.DefaultLimits()), CloneLimits: ample(boot.CloneLimits()),
		Usage: f.usage, Billing: usage.Config{Ledger: billingtest.NewMemory()}, Logger: slog.New(slog.DiscardHandler),
		Fences: workspaces.Fences{Fences: f.Sessions.Stores().Fences, Publications: f.Sessions.Publications},
	}
	for _, fn := range change {
		fn(&f.Config)
	}
	f.Start()
	tb.Cleanup(f.Stop)
	return f
}

// ample are limits for a host that is busy with other tests.
func ample(l boot.Limits) boot.Limits {
	l.Machine, l.Link, l.Handshake, l.Session, l.Drawn = time.Minute, time.Minute, time.Minute, time.Minute, time.Minute
	return l
}

// SetFree sets what the host has left.
func (f *Fixture) SetFree(u admission.Usage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.free = u
}

func (f *Fixture) usage() (admission.Usage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.free, nil
}

// Start starts the host, again after a Stop: on the same data directory and
// with the machines that still run.
func (f *Fixture) Start() {
	f.tb.Helper()
	h, err := host.New(context.Background(), f.Config)
	if err != nil {
		f.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.Host, f.stop = h, cancel
	f.wait.Go(func() {
		if err := h.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			f.tb.Errorf("run host: %v", err)
		}
	})
	<-h.Ready()
}

// Stop stops the host; machines run on. It may be called again.
func (f *Fixture) Stop() {
	if f.stop == nil {
		return
	}
	f.StopRun()
	f.WaitRun()
	f.stop = nil
	if err := f.Host.Close(); err != nil {
		f.tb.Errorf("close host: %v", err)
	}
}

// Crash starts a new host on what the present one has written so far, as after
// its sudden end. The old one is left where it stands until the test ends: what
// it does then is nobody's.
func (f *Fixture) Crash() {
	f.tb.Helper()
	dir := f.tb.TempDir()
	if err := os.CopyFS(dir, os.DirFS(f.Config.DataDir)); err != nil {
		f.tb.Fatal(err)
	}
	old, stop, wait := f.Host, f.stop, f.wait
	f.wait = &sync.WaitGroup{}
	f.tb.Cleanup(func() {
		stop()
		wait.Wait()
		if err := old.Close(); err != nil {
			f.tb.Errorf("close host: %v", err)
		}
	})
	f.Config.DataDir = dir
	f.Start()
}

// StopRun asks the host's Run to end and returns at once.
func (f *Fixture) StopRun() { f.stop() }

// WaitRun returns when the host's Run has ended.
func (f *Fixture) WaitRun() { f.wait.Wait() }

// open joins a machine in memory to the real client of guests.
func (f *Fixture) open(cfg reach.Config) (*live.Desktop, error) {
	c := client.New(client.Config{
		Dial:  func(ctx context.Context) (net.Conn, error) { return cfg.Machine.DialGuest(ctx, guest.Port) },
		Token: cfg.Tokens[0], Others: cfg.Tokens[1:],
	})
	d := adapter.Guest(c, nil, nil)
	d.Screen, d.Input = f.Screen, f.Input
	return d, nil
}

// Create makes a desktop and waits until it is ready.
func (f *Fixture) Create(req api.CreateDesktop) api.Desktop {
	f.tb.Helper()
	if req.Image == "" && req.Snapshot == "" {
		req.Image = "test"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	v, err := f.Host.Create(ctx, Project, req, "")
	if err == nil {
		v, err = f.Host.Wait(ctx, Project, v.ID, api.StageDrawn)
	}
	if err != nil {
		f.tb.Fatalf("create desktop: %v", err)
	}
	return v
}

// Machine is the machine of a desktop.
func (f *Fixture) Machine(id string) *Machine {
	f.tb.Helper()
	for _, m := range f.Provider.Machines() {
		if string(m.Spec.ID) == id {
			return m
		}
	}
	f.tb.Fatalf("desktop %s has no machine", id)
	return nil
}
