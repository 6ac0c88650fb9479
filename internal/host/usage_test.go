package host_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/usage"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/billing"
	"github.com/deskfork/deskfork/pkg/billing/billingtest"
	"github.com/deskfork/deskfork/pkg/billing/meter"
	"github.com/deskfork/deskfork/pkg/billing/sqlstore"
	"github.com/deskfork/deskfork/pkg/vm"
)

// clocks are a host's clocks that a test moves.
type clocks struct {
	mu  sync.Mutex
	now meter.Instant // guarded by mu
}

func (c *clocks) read() meter.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clocks) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.NS += int64(d)
	c.now.Wall = c.now.Wall.Add(d)
}

// reboot begins another run of the kernel.
func (c *clocks) reboot() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Boot, c.now.NS = c.now.Boot+"'", 1
}

// metered starts a host whose use is kept in a file, by clocks that stand.
func metered(t *testing.T, change ...func(*host.Config)) (*hosttest.Fixture, *clocks) {
	t.Helper()
	c := &clocks{now: meter.Instant{Boot: "b", NS: 1, Wall: time.Date(2026, 11, 3, 10, 0, 0, 0, time.UTC)}}
	change = append(change, func(cfg *host.Config) { cfg.Billing = usage.Config{Clock: c.read, Proof: time.Hour} })
	return hosttest.New(t, change...), c
}

// ledger reads what the host of a fixture has written, once it has stopped or
// crashed.
func ledger(t *testing.T, f *hosttest.Fixture) []billing.Row {
	t.Helper()
	s, err := sqlstore.OpenSQLite(t.Context(), filepath.Join(f.Config.DataDir, usage.DatabaseName))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // it was read alone
	rows, err := billingtest.All(t.Context(), s, billing.Query{})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// active sums active seconds up by incarnation, in the order of their starts.
func active(rows []billing.Row) (list []int64) {
	by := map[string]int64{}
	var order []string
	for _, r := range rows {
		if r.Kind != billing.SandboxActiveSeconds {
			continue
		}
		if by[r.Incarnation] == 0 {
			order = append(order, r.Incarnation)
		}
		by[r.Incarnation] += r.Value
	}
	for _, inc := range order {
		list = append(list, by[inc])
	}
	return list
}

// TestUsageOfALife walks a desktop through its life: what it uses when is what is
// written down, and who used it.
func TestUsageOfALife(t *testing.T) {
	t.Parallel()
	f, c := metered(t)
	ctx := patient(t)
	d := f.Create(api.CreateDesktop{Name: "one", Shape: "small", Labels: map[string]string{"session": "s1", "agent": "a1"}})
	must := func(_ api.Desktop, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c.pass(100 * time.Second)
	f.Machine(d.ID).Send(1000)
	must(f.Host.Power.Pause(ctx, project, "one"))
	c.pass(1000 * time.Second) // for nothing
	must(f.Host.Power.Resume(ctx, project, "one"))
	c.pass(7 * time.Second)
	must(f.Host.Power.Suspend(ctx, project, "one"))
	c.pass(5000 * time.Second) // for nothing
	must(f.Host.Power.Resume(ctx, project, "one"))
	c.pass(20 * time.Second)
	f.Machine(d.ID).Send(200)
	f.Stop() // and nobody sees to it for a while
	c.pass(30 * time.Second)
	f.Start()
	must(f.Host.Wait(ctx, project, "one", api.StageDrawn))
	kids, err := f.Host.Fork(ctx, project, "one", api.Fork{Count: 1}, "")
	if err != nil {
		t.Fatal(err)
	}
	must(f.Host.Wait(ctx, project, kids[0].ID, api.StageDrawn))
	c.pass(3 * time.Second)
	f.Machine(d.ID).Send(30)
	if err := f.Host.Delete(ctx, project, "one"); err != nil {
		t.Fatal(err)
	}
	c.pass(2 * time.Second)
	switchOff(t, f, kids[0].ID)
	c.pass(time.Hour)
	f.Stop()
	rows := ledger(t, f)
	if got, want := active(rows), []int64{107, 53, 5}; !slices.Equal(got, want) {
		t.Errorf("active seconds of the incarnations: %v, want %v", got, want)
	}
	want := billing.Owner{Project: project, Session: "s1", Agent: "a1", Desktop: d.ID}
	if len(rows) == 0 || rows[0].Owner != want {
		t.Errorf("rows %+v, want the owner %+v", rows, want)
	}
	var memory, egress int64
	for _, r := range rows {
		if r.Kind == billing.EgressBytes {
			egress += r.Value
		}
		if r.Kind == billing.MemoryGiBSeconds && r.Incarnation == rows[0].Incarnation {
			memory += r.Value
		}
	}
	if egress != 1230 {
		t.Errorf("%d bytes were sent, want 1230", egress)
	}
	shape, _ := vm.ShapeNamed("small")
	if want := int64(1107*shape.MemoryMiB) / 1024; memory != want {
		t.Errorf("memory %d GiB s, want %d: it is held in a pause too", memory, want)
	}
}

// switchOff lets the guest of a desktop switch itself off, and waits for the host
// to see it.
func switchOff(t *testing.T, f *hosttest.Fixture, id string) {
	t.Helper()
	sub := f.Host.Events().Subscribe(event.Filter{Desktop: id}, f.Host.Events().Last())
	f.Machine(id).End(vm.ErrGuestShutdown)
	for {
		e, err := sub.Next(patient(t))
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.TypeStopped {
			return
		}
	}
}

// gone is a provider whose machines have ended while nobody looked.
type gone struct{ *hosttest.Provider }

// Recover implements vm.Provider.
func (gone) Recover(context.Context) ([]vm.Machine, error) { return nil, nil }

// TestUsageOfACrash: the daemon dies without a word. What runs on is billed on,
// what is gone is billed to its last proof of life.
func TestUsageOfACrash(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		after func(*hosttest.Fixture, *clocks)
		want  []int64
	}{
		"it runs on":          {func(*hosttest.Fixture, *clocks) {}, []int64{100 + 50 + 4}},
		"it is gone":          {func(f *hosttest.Fixture, _ *clocks) { f.Config.Provider = gone{f.Provider} }, []int64{100}},
		"the host has booted": {func(f *hosttest.Fixture, c *clocks) { f.Config.Provider = gone{f.Provider}; c.reboot() }, []int64{100}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, c := metered(t)
			f.Create(api.CreateDesktop{Name: "one"})
			c.pass(100 * time.Second)
			// A pause writes down, and so it is the last proof of life but for the
			// resume, which is written at its leisure.
			for _, do := range []func(context.Context, string, string) (api.Desktop, error){f.Host.Power.Pause, f.Host.Power.Resume} {
				if _, err := do(patient(t), project, "one"); err != nil {
					t.Fatal(err)
				}
			}
			f.Host.Usage.Paused("nobody") // writes the resume
			c.pass(50 * time.Second)
			tt.after(f, c)
			f.Crash()
			c.pass(4 * time.Second)
			f.Stop()
			f.Start() // for a last proof of life, and the end
			for _, m := range f.Provider.Machines() {
				if err := f.Host.Delete(patient(t), project, string(m.Spec.ID)); err != nil {
					t.Fatal(err)
				}
			}
			f.Stop()
			if got := active(ledger(t, f)); !slices.Equal(got, tt.want) {
				t.Errorf("active seconds %v, want %v", got, tt.want)
			}
		})
	}
}

// errDead is what the host of before hears at last.
var errDead = errors.New("this host has died")

// TestUsageOfCrashesAtEachStep ends the host at each step of each verb. Nothing
// is counted twice, nothing after its end, and nothing stays open.
func TestUsageOfCrashesAtEachStep(t *testing.T) {
	t.Parallel()
	steps := map[string]func(*hosttest.Provider, func(context.Context)){
		"before the seal": func(p *hosttest.Provider, fn func(context.Context)) {
			p.OnSnapshot(func(ctx context.Context, _ vm.SnapshotSpec) error { fn(ctx); return errDead })
		},
		"after the seal": func(p *hosttest.Provider, fn func(context.Context)) { p.OnSealed(fn) },
		"before a clone": func(p *hosttest.Provider, fn func(context.Context)) {
			p.OnClone(func(ctx context.Context, _ vm.CloneSpec) error { fn(ctx); return errDead })
		},
		"after a clone": func(p *hosttest.Provider, fn func(context.Context)) { p.OnCloned(fn) },
		"before a boot": func(p *hosttest.Provider, fn func(context.Context)) {
			p.OnCreate(func(ctx context.Context, _ vm.Spec) error { fn(ctx); return errDead })
		},
		"before the end of a machine": func(p *hosttest.Provider, fn func(context.Context)) {
			for _, m := range p.Machines() {
				m.OnDestroy(func() error { fn(context.Background()); return nil })
			}
		},
	}
	all := verbs()
	all["delete"] = func(ctx context.Context, h *host.Host) error { return h.Delete(ctx, project, "one") }
	all["pause and resume"] = func(ctx context.Context, h *host.Host) error {
		_, err := h.Power.Pause(ctx, project, "one")
		if err == nil {
			_, err = h.Power.Resume(ctx, project, "one")
		}
		return err
	}
	for verb, do := range all {
		for step, at := range steps {
			t.Run(verb+" "+step, func(t *testing.T) {
				t.Parallel()
				f, c := metered(t)
				f.Create(api.CreateDesktop{Name: "one"})
				ctx := patient(t)
				if _, err := f.Host.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: "login"}, ""); err != nil {
					t.Fatal(err)
				}
				crashed, over := make(chan struct{}), make(chan struct{})
				var came atomic.Bool
				at(f.Provider, func(ctx context.Context) {
					if came.Swap(true) {
						return
					}
					close(crashed)
					select {
					case <-over:
					case <-ctx.Done():
					}
				})
				vctx, cancel := context.WithCancel(ctx)
				done := make(chan struct{})
				h := f.Host
				go func() { defer close(done); _ = do(vctx, h) }()
				defer func() { close(over); cancel(); <-done }()
				c.pass(10 * time.Second)
				select {
				case <-crashed:
				case <-done: // this verb does not come by here
					return
				}
				f.Crash()
				c.pass(10 * time.Second)
				list, err := f.Host.Desktops(ctx, project, host.ListFilter{})
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range list {
					if err := f.Host.Delete(ctx, project, d.ID); err != nil && !strings.Contains(err.Error(), "not found") {
						t.Fatal(err)
					}
				}
				c.pass(time.Hour)
				f.Stop()
				var sum int64
				for _, n := range active(ledger(t, f)) {
					if n > 20 {
						t.Errorf("an incarnation has used %d s of 20", n)
					}
					sum += n
				}
				if sum == 0 || f.Host.Usage.Open() != 0 {
					t.Errorf("%d s were used, %d are open", sum, f.Host.Usage.Open())
				}
			})
		}
	}
}

// TestUsageNeverHoldsAnEnd: with a ledger that hangs, desktops end as ever.
func TestUsageNeverHoldsAnEnd(t *testing.T) {
	t.Parallel()
	l := &hanging{Memory: billingtest.NewMemory(), over: make(chan struct{})}
	f := hosttest.New(t, func(cfg *host.Config) { cfg.Billing = usage.Config{Ledger: l} })
	f.Create(api.CreateDesktop{Name: "one"})
	if _, err := f.Host.Power.Suspend(patient(t), project, "one"); err != nil {
		t.Error(err)
	}
	if err := f.Host.Delete(patient(t), project, "one"); err != nil {
		t.Error(err)
	}
	close(l.over)
}

// hanging is a ledger whose writes hang until over is closed.
type hanging struct {
	*billingtest.Memory

	over chan struct{}
}

func (h *hanging) Commit(ctx context.Context, b billing.Batch) (int, error) {
	select {
	case <-h.over:
		return h.Memory.Commit(ctx, b)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
