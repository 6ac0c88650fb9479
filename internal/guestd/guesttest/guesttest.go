// Package guesttest runs guestd in process, for tests of the host's side. Its
// kernel and its desktop are fakes with a memory; execs, files, dialling and
// the link are the real ones, as the user of the test.
package guesttest

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guestd"
	"github.com/deskfork/deskfork/internal/guestd/display"
	"github.com/deskfork/deskfork/internal/guestd/exec"
	"github.com/deskfork/deskfork/internal/guestd/runner"
	"github.com/deskfork/deskfork/internal/guestd/system"
	"github.com/deskfork/deskfork/pkg/guest/client"
	"github.com/deskfork/deskfork/pkg/guest/mux"
)

// Token is the token that a Guest starts with.
const Token = "guesttest-token"

// A test's own program is guestd's in its guests, and so their runner of sealed starts.
var _ = func() bool {
	runner.Main(os.Args, os.Environ()) //nolint:forbidigo // before any test
	return true
}()

// Config of a Guest. Its zero value is a guest with a fake desktop.
type Config struct {
	Logger    *slog.Logger // nil: silent
	Exec      exec.Config
	Timing    mux.Timing // zero: guestd's own
	NoDesktop bool
	Token     string // default: Token
}

// Guest is a running guestd.
type Guest struct {
	Kernel  *Kernel
	Desktop *Desktop // nil with NoDesktop

	addr string
	stop context.CancelFunc
	done chan error

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// Start runs a guest until the test ends.
func Start(tb testing.TB, cfg Config) *Guest {
	tb.Helper()
	g := &Guest{Kernel: &Kernel{}, done: make(chan error, 1), conns: map[net.Conn]struct{}{}}
	dir := tb.TempDir()
	sc := guestd.Config{
		Token:  func() (string, error) { return cmp.Or(cfg.Token, Token), nil },
		Logger: cfg.Logger, Version: "guesttest", Timing: cfg.Timing, Exec: cfg.Exec,
		System: system.Config{Kernel: g.Kernel, Generation: filepath.Join(dir, "run", "generation"), Workspace: filepath.Join(dir, "workspace")},
	}
	if !cfg.NoDesktop {
		g.Desktop = NewDesktop()
		sc.Helper = display.Config{Spawn: g.Desktop.spawn, Poll: time.Millisecond, Backoff: time.Millisecond}
	}
	srv, err := guestd.New(sc)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	g.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	go func() { g.done <- srv.Run(ctx, ln) }()
	tb.Cleanup(g.Stop)
	return g
}

// Stop ends the guest, as if it were powered off. Stopping twice is harmless.
func (g *Guest) Stop() {
	g.stop()
	if err, ok := <-g.done; ok {
		_ = err // the listener is closed: there is nothing to mend
		close(g.done)
	}
}

// Dial connects to the guest's port, as client.Config wants it.
func (g *Guest) Dial(ctx context.Context) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", g.addr)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = struct{}{}
	return c, nil
}

// Cut breaks all connections that were dialled so far.
func (g *Guest) Cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		c.Close()
	}
	clear(g.conns)
}

// Client returns a client that runs until the test ends.
func (g *Guest) Client(tb testing.TB) *client.Client {
	tb.Helper()
	return Run(tb, client.Config{Dial: g.Dial, Token: Token})
}

// Run runs a client of the given configuration until the test ends.
func Run(tb testing.TB, cfg client.Config) *client.Client {
	tb.Helper()
	c := client.New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) }) // ends with the context's error
	tb.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return c
}
