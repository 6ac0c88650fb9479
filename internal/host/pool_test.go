package host_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/pool"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

func pooled(limits pool.Limits) func(*host.Config) {
	return func(c *host.Config) { c.Pool = limits }
}

// stocked waits until so many warm machines can be taken, and returns one of them.
func stocked(t *testing.T, f *hosttest.Fixture, n int) *hosttest.Machine {
	t.Helper()
	ctx := patient(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var still []*hosttest.Machine
		for _, m := range f.Provider.Machines() {
			if m.Info().State == vm.StatePaused {
				still = append(still, m)
			}
		}
		// A machine stands still a moment before it is in stock.
		if warm, _ := f.Host.Stock(); warm == n && len(still) == n {
			return still[0]
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d machines are in stock, want %d", len(still), n)
		}
	}
}

func TestPool(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t, pooled(pool.Limits{Warm: 2, Prepared: 2}))
	ctx := patient(t)
	if _, err := f.Host.SealBoot(ctx, "test", api.SealImage{}); err != nil {
		t.Fatal(err)
	}
	first := greeting(f, "first")
	if first.Origin != api.OriginTemplate {
		t.Errorf("with an empty pool the origin is %s", first.Origin)
	}
	spare := stocked(t, f, 1)
	list, err := f.Host.Desktops(ctx, project, host.ListFilter{})
	if err != nil || len(list) != 1 {
		t.Errorf("%d desktops are listed, %v: spares are nobody's", len(list), err)
	}
	v := f.Create(api.CreateDesktop{
		Name: "second", Env: map[string]string{"GREETING": "ave"}, Display: &api.Display{Width: 800, Height: 600}, Keyboard: "de",
	})
	if v.Origin != api.OriginPool || v.ID != string(spare.Spec.ID) || v.Incarnation != string(spare.Spec.Incarnation) || len(v.Stages) != 6 {
		t.Errorf("the second is %+v, want the spare %s", v, spare.Spec.ID)
	}
	says(t, f, "second", "ave")
	if n := len(spare.Guest.Kernel.State().Entropy); n < 2 {
		t.Errorf("the spare was given entropy %d times, want again for its caller", n)
	}
	stocked(t, f, 2)
	var all sync.WaitGroup
	for range 20 { // a burst is more than the stock
		all.Go(func() {
			v, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test"}, "")
			if err == nil {
				_, err = f.Host.Wait(ctx, project, v.ID, api.StageDrawn)
			}
			if err != nil {
				t.Errorf("create: %v", err)
			}
		})
	}
	all.Wait()
	f.Stop()
	if n := len(f.Provider.Machines()); n != 22 {
		t.Errorf("%d machines run after the host has stopped, want those of desktops alone", n)
	}
}

// TestPoolAfterCrash: spares of a host that ended suddenly are nobody's, and go.
func TestPoolAfterCrash(t *testing.T) {
	f := hosttest.New(t, pooled(pool.Limits{Warm: 1}))
	if _, err := f.Host.SealBoot(patient(t), "test", api.SealImage{}); err != nil {
		t.Fatal(err)
	}
	greeting(f, "one")
	spare := stocked(t, f, 1)
	f.Crash()
	select {
	case <-spare.Done():
	default:
		t.Error("the spare runs on")
	}
	if _, err := f.Host.Wait(patient(t), project, "one", api.StageDrawn); err != nil {
		t.Fatal(err)
	}
	says(t, f, "one", "salve")
}

// TestSpareThatDoesNotServe: a desktop does not fail for lack of a pool.
func TestSpareThatDoesNotServe(t *testing.T) {
	for name, spoil := range map[string]func(*hosttest.Machine){
		"its guest is gone": func(m *hosttest.Machine) { m.Guest.Stop() },
		"it has ended":      func(m *hosttest.Machine) { m.End(vm.ErrGuestShutdown) },
	} {
		t.Run(name, func(t *testing.T) {
			hosttest.NoLeaks(t)
			f := hosttest.New(t, pooled(pool.Limits{Warm: 1}), func(c *host.Config) {
				c.CloneLimits.Link, c.CloneLimits.Handshake = 5*time.Second, 5*time.Second // so long it waits for who is gone
			})
			ctx := patient(t)
			if _, err := f.Host.SealBoot(ctx, "test", api.SealImage{}); err != nil {
				t.Fatal(err)
			}
			greeting(f, "one")
			spare := stocked(t, f, 1)
			spoil(spare)
			v := greeting(f, "two")
			if v.Origin != api.OriginTemplate || v.Incarnation == string(spare.Spec.Incarnation) {
				t.Errorf("it is %+v", v)
			}
			says(t, f, "two", "salve")
		})
	}
}

// TestDeleteDuringClaim: nothing is left of a spare that is claimed and deleted.
func TestDeleteDuringClaim(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t, pooled(pool.Limits{Warm: 1}))
	ctx := patient(t)
	if _, err := f.Host.SealBoot(ctx, "test", api.SealImage{}); err != nil {
		t.Fatal(err)
	}
	greeting(f, "one")
	spare := stocked(t, f, 1)
	asked := make(chan struct{})
	var once sync.Once
	spare.Guest.Desktop.Override(func(ctx context.Context, _ guest.HelperMessage) *guest.HelperMessage {
		once.Do(func() { close(asked) })
		<-ctx.Done()
		return nil
	})
	v, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test", Name: "two", Keyboard: "de"}, "")
	if err != nil || v.ID != string(spare.Spec.ID) {
		t.Fatalf("made %s, %v", v.ID, err)
	}
	<-asked
	if err := f.Host.Delete(ctx, project, "two"); err != nil {
		t.Fatal(err)
	}
	<-spare.Done()
}
