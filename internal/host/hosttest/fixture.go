package hosttest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/adapter"
	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/guest/client"
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

	tb   testing.TB
	stop context.CancelFunc
	wait sync.WaitGroup
	mu   sync.Mutex
	free admission.Usage
}

// New starts a host until the test ends. change adjusts its configuration.
func New(tb testing.TB, change ...func(*host.Config)) *Fixture {
	tb.Helper()
	f := &Fixture{
		tb: tb, Provider: NewProvider(tb), Images: &Images{}, Screen: NewScreen(), Input: &Input{},
		free: admission.Usage{MemoryTotal: 24 * gib, MemoryAvailable: 20 * gib, DiskTotal: 200 * gib, DiskAvailable: 100 * gib},
	}
	f.Config = host.Config{
		DataDir: tb.TempDir(), Version: "test", Provider: f.Provider, Images: f.Images, Open: f.open,
		Usage: f.usage, Logger: slog.New(slog.DiscardHandler),
	}
	for _, fn := range change {
		fn(&f.Config)
	}
	f.Start()
	tb.Cleanup(f.Stop)
	return f
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

// StopRun asks the host's Run to end and returns at once.
func (f *Fixture) StopRun() { f.stop() }

// WaitRun returns when the host's Run has ended.
func (f *Fixture) WaitRun() { f.wait.Wait() }

// open joins a machine in memory to the real client of guests.
func (f *Fixture) open(cfg host.OpenConfig) (*live.Desktop, error) {
	c := client.New(client.Config{
		Dial:  func(ctx context.Context) (net.Conn, error) { return cfg.Machine.DialGuest(ctx, guest.Port) },
		Token: guesttest.Token,
	})
	d := adapter.Guest(c, nil, nil)
	d.Screen, d.Input = f.Screen, f.Input
	return d, nil
}

// Create makes a desktop and waits until it is ready.
func (f *Fixture) Create(req api.CreateDesktop) api.Desktop {
	f.tb.Helper()
	if req.Image == "" {
		req.Image = "test"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
