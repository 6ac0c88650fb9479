package usage_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/deskfork/deskfork/internal/host/store"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/billing/meter"
	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/vmtest"
	"github.com/deskfork/deskfork/test/harness/postgres"
)

// clock is moved by its test.
type clock struct {
	mu  sync.Mutex
	now meter.Instant // guarded by mu
}

func newClock() *clock {
	return &clock{now: meter.Instant{Boot: "b", NS: 1, Wall: time.Date(2026, 11, 3, 10, 0, 0, 0, time.UTC)}}
}

func (c *clock) read() meter.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.NS += int64(d)
	c.now.Wall = c.now.Wall.Add(d)
}

// open opens a book that runs until the returned function is called.
func open(t *testing.T, cfg usage.Config) (b *usage.Book, stop func()) {
	t.Helper()
	b, err := usage.Open(t.Context(), t.TempDir(), cfg, slog.New(slog.DiscardHandler))
	if err == nil {
		err = b.Load(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	wait.Go(func() { b.Run(ctx) })
	stop = sync.OnceFunc(func() {
		cancel()
		wait.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return b, stop
}

// machine makes a machine of a desktop.
func machine(t *testing.T, p *vmtest.Provider, inc vm.Incarnation) vm.Machine {
	t.Helper()
	shape, _ := vm.ShapeNamed("small")
	m, err := p.Create(t.Context(), vm.Spec{
		ID: "d1", Incarnation: inc, Shape: shape, Boot: vm.Boot{Kernel: "/k"}, System: vm.Disk{Base: "/s", BaseFormat: "raw"},
		Workspace: vm.Disk{SizeMiB: 64}, Width: 640, Height: 480, Network: vm.NetworkNone,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func row(inc string) store.Desktop {
	return store.Desktop{Desktop: api.Desktop{ID: "d1", Project: "p", Incarnation: inc}}
}

func sum(t *testing.T, l billing.Ledger, inc string) map[billing.Kind]int64 {
	t.Helper()
	rows, err := billingtest.All(t.Context(), l, billing.Query{})
	if err != nil {
		t.Fatal(err)
	}
	by := map[billing.Kind]int64{}
	for _, r := range rows {
		if r.Incarnation == inc {
			by[r.Kind] += r.Value
		}
	}
	return by
}

// TestWatchAndBrowse: people and pages count while they are there, and the
// browser not while the machine stands still.
func TestWatchAndBrowse(t *testing.T) {
	t.Parallel()
	c, l := newClock(), billingtest.NewMemory()
	b, stop := open(t, usage.Config{Ledger: l, Clock: c.read})
	b.Watch("i1")() // nobody is there to be watched
	m := machine(t, vmtest.New(vmtest.Config{}), "i1")
	b.Started(row("i1"), m)
	first, second, page := b.Watch("i1"), b.Watch("i1"), b.Browse("i1")
	c.pass(10 * time.Second) // 20 of viewers, 10 of the browser
	first()
	first()
	b.Paused("i1")
	c.pass(5 * time.Second) // 5 of a viewer
	b.Resumed("i1")
	c.pass(2 * time.Second) // 2 and 2
	page()
	c.pass(time.Second) // 1
	b.Ended("i1")
	second()
	c.pass(time.Hour)
	stop()
	got := sum(t, l, "i1")
	for k, want := range map[billing.Kind]int64{
		billing.ViewerSeconds: 28, billing.BrowserActiveSeconds: 12, billing.SandboxActiveSeconds: 13,
	} {
		if got[k] != want {
			t.Errorf("%s: %d, want %d", k, got[k], want)
		}
	}
}

// TestSessions: a session goes on over a restart of the host, and ends at its
// last proof of life when it is lost.
func TestSessions(t *testing.T) {
	t.Parallel()
	c, l := newClock(), billingtest.NewMemory()
	owner := billing.Owner{Project: "p", Session: "s"}
	b, stop := open(t, usage.Config{Ledger: l, Clock: c.read})
	b.Sessions().Opened("s1", owner)
	b.Sessions().Opened("s2", owner)
	c.pass(10 * time.Second)
	b.Sessions().Alive("s2")
	stop()
	c.pass(20 * time.Second)
	b, stop = open(t, usage.Config{Ledger: l, Clock: c.read})
	b.Settle() // machines alone
	if b.Open() != 2 {
		t.Errorf("%d are open", b.Open())
	}
	b.Sessions().Opened("s1", owner)
	b.Sessions().Closed("s1", false)
	b.Sessions().Closed("s2", true)
	stop()
	for name, want := range map[string]int64{"session/s1": 30, "session/s2": 10} {
		if got := sum(t, l, name)[billing.SessionAliveSeconds]; got != want {
			t.Errorf("%s: %d s, want %d", name, got, want)
		}
	}
}

// TestHostsShareADatabase: two hosts write to one PostgreSQL database; the crash
// of it and of one of them costs the other nothing.
func TestHostsShareADatabase(t *testing.T) {
	t.Parallel()
	server := postgres.Start(t)
	c, url := newClock(), server.Database(t)
	config := func(host string) usage.Config { return usage.Config{Database: url, Host: host, Clock: c.read} }
	p := vmtest.New(vmtest.Config{})
	a, stopA := open(t, config("a"))
	b, stopB := open(t, config("b"))
	a.Started(row("i1"), machine(t, p, "i1"))
	b.Started(row("i2"), machine(t, p, "i2"))
	c.pass(10 * time.Second)
	stopA()
	server.Crash(t)
	a, stopA = open(t, config("a"))
	a.Settle() // its machine is gone
	if a.Open() != 0 || b.Open() != 1 {
		t.Errorf("open are %d and %d", a.Open(), b.Open())
	}
	c.pass(5 * time.Second)
	b.Ended("i2")
	stopA()
	stopB()
	l, stop := open(t, config("reader"))
	defer stop()
	events, err := l.Events(t.Context(), billing.Query{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, e := range events.Events {
		if e.Kind == string(billing.SandboxActiveSeconds) {
			got[e.Incarnation] += e.Value
		}
	}
	if got["i1"] != 10 || got["i2"] != 15 || len(got) != 2 {
		t.Errorf("active seconds %v", got)
	}
}

// TestMetrics: what Prometheus is told has no label but the kind.
func TestMetrics(t *testing.T) {
	t.Parallel()
	b, stop := open(t, usage.Config{Ledger: billingtest.NewMemory()})
	defer stop()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(b.Collector()); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil || len(families) != 5 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() != "kind" || !slices.Contains(billing.Kinds(), billing.Kind(label.GetValue())) {
					t.Errorf("%s has label %s=%s", f.GetName(), label.GetName(), label.GetValue())
				}
			}
		}
	}
}
