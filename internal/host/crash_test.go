package host_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// verbs are what a host may be about to do when it ends. Each begins with a
// desktop "one" and a snapshot "login" of it.
func verbs() map[string]func(context.Context, *host.Host) error {
	return map[string]func(context.Context, *host.Host) error{
		"create": func(ctx context.Context, h *host.Host) error {
			v, err := h.Create(ctx, project, api.CreateDesktop{Image: "test", Name: "two"}, "")
			if err == nil {
				_, err = h.Wait(ctx, project, v.ID, api.StageDrawn)
			}
			return err
		},
		"first create": func(ctx context.Context, h *host.Host) error {
			v, err := h.Create(ctx, project, api.CreateDesktop{Image: "test", Name: "two", Shape: "large"}, "")
			if err == nil {
				_, err = h.Wait(ctx, project, v.ID, api.StageDrawn)
			}
			return err
		},
		"fork": func(ctx context.Context, h *host.Host) error {
			kids, err := h.Fork(ctx, project, "one", api.Fork{Count: 2}, "")
			for _, kid := range kids {
				if _, err = h.Wait(ctx, project, kid.ID, api.StageDrawn); err != nil {
					return err
				}
			}
			return err
		},
		"snapshot": func(ctx context.Context, h *host.Host) error {
			_, err := h.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: "another"}, "")
			return err
		},
		"suspend": func(ctx context.Context, h *host.Host) error {
			_, err := h.Power.Suspend(ctx, project, "one")
			return err
		},
		"suspend and resume": func(ctx context.Context, h *host.Host) error {
			_, err := h.Power.Suspend(ctx, project, "one")
			if err == nil {
				_, err = h.Power.Resume(ctx, project, "one")
			}
			return err
		},
		"restore": func(ctx context.Context, h *host.Host) error {
			_, err := h.Power.Restore(ctx, project, "one", api.Restore{Snapshot: "login"})
			return err
		},
	}
}

// TestCrash ends the host at each step of each verb. What the next one finds is
// whole: "one" is there and answers, nothing is half, nothing is left over.
func TestCrash(t *testing.T) {
	t.Parallel()
	steps := map[string]func(*hosttest.Provider, func(context.Context)){
		"before a boot": func(p *hosttest.Provider, fn func(context.Context)) {
			p.OnCreate(func(ctx context.Context, _ vm.Spec) error { fn(ctx); return ctx.Err() })
		},
		"before the seal": func(p *hosttest.Provider, fn func(context.Context)) {
			p.OnSnapshot(func(ctx context.Context, _ vm.SnapshotSpec) error { fn(ctx); return ctx.Err() })
		},
		"after the seal": func(p *hosttest.Provider, fn func(context.Context)) { p.OnSealed(fn) },
		"before a clone": func(p *hosttest.Provider, fn func(context.Context)) {
			p.OnClone(func(ctx context.Context, _ vm.CloneSpec) error { fn(ctx); return ctx.Err() })
		},
		"after a clone": func(p *hosttest.Provider, fn func(context.Context)) { p.OnCloned(fn) },
		"before the end of a machine": func(p *hosttest.Provider, fn func(context.Context)) {
			for _, m := range p.Machines() {
				m.OnDestroy(func() error { fn(context.Background()); return nil })
			}
		},
	}
	var passed sync.Map // steps
	t.Cleanup(func() {
		for step := range steps {
			if _, ok := passed.Load(step); !ok {
				t.Errorf("no verb comes by %s", step)
			}
		}
	})
	for verb, do := range verbs() {
		for step, at := range steps {
			t.Run(verb+" "+step, func(t *testing.T) {
				t.Parallel()
				f := hosttest.New(t)
				greeting(f, "one")
				if _, err := f.Host.Snapshots.Create(patient(t), project, "one", api.CreateSnapshot{Name: "login"}, ""); err != nil {
					t.Fatal(err)
				}
				crashed := make(chan struct{})
				over := make(chan struct{}) // of the test
				var came atomic.Bool
				at(f.Provider, func(ctx context.Context) {
					if came.Swap(true) {
						return // the next host comes by here too
					}
					close(crashed)
					select {
					case <-over:
					case <-ctx.Done():
					}
				})
				ctx, cancel := context.WithCancel(patient(t))
				done := make(chan error, 1)
				h := f.Host // not the next one
				go func() { done <- do(ctx, h) }()
				t.Cleanup(func() {
					cancel()
					if err := <-done; err != nil {
						t.Log("the verb that was broken off:", err)
					}
				})
				select {
				case <-crashed:
				case err := <-done:
					done <- nil
					if err != nil {
						t.Fatalf("the verb fails: %v", err)
					}
					return // it does not come by here
				}
				passed.Store(step, true)
				f.Crash()
				t.Cleanup(func() { close(over) })
				whole(t, f)
			})
		}
	}
}

// whole checks what a host has found at its start.
func whole(t *testing.T, f *hosttest.Fixture) {
	t.Helper()
	ctx := patient(t)
	list, err := f.Host.Desktops(ctx, project, host.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	incarnations := map[vm.Incarnation]bool{}
	for _, v := range list {
		got, err := f.Host.Wait(ctx, project, v.ID, api.StageDrawn)
		if err != nil && got.State != api.StateFailed {
			t.Errorf("desktop %s is %s: %v", v.Name, got.State, err)
		}
		if got.State == api.StateFailed && (v.Name == "one" || v.Origin == api.OriginFork || got.Failure == nil) {
			t.Errorf("desktop %s of origin %s has failed: %v", v.Name, v.Origin, got.Failure)
		}
		incarnations[vm.Incarnation(got.Incarnation)] = true
	}
	if v, err := f.Host.Desktop(ctx, project, "one"); err != nil {
		t.Errorf("the desktop is gone: %v", err)
	} else if v.State == api.StateSuspended {
		if _, err := f.Host.Power.Resume(ctx, project, "one"); err != nil {
			t.Errorf("it does not come back: %v", err)
		}
		v, _ = f.Host.Desktop(ctx, project, "one")
		incarnations[vm.Incarnation(v.Incarnation)] = true
	}
	says(t, f, "one", "salve")
	for _, m := range f.Provider.Machines() {
		if !incarnations[m.Spec.Incarnation] {
			t.Errorf("machine %s of %s is nobody's", m.Spec.Incarnation, m.Spec.ID)
		}
	}
	snaps, err := f.Host.Snapshots.List(ctx, project)
	if err != nil {
		t.Fatal(err)
	}
	ids := f.Provider.SnapshotIDs()
	for _, s := range snaps {
		if !slices.Contains(ids, vm.SnapshotID(s.ID)) {
			t.Errorf("snapshot %s %q has no files", s.Kind, s.Name)
		}
	}
	if len(ids) != len(snaps) {
		t.Errorf("%d snapshots have files, %d are listed", len(ids), len(snaps))
	}
}
