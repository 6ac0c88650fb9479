package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// greeting makes a desktop that says salve.
func greeting(f *hosttest.Fixture, name string) api.Desktop {
	return f.Create(api.CreateDesktop{Name: name, Env: map[string]string{"GREETING": "salve"}})
}

func TestPauseAndResume(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	d := greeting(f, "one")
	for range 2 {
		v, err := f.Host.Power.Pause(ctx, project, "one")
		if err != nil || v.State != api.StatePaused {
			t.Fatalf("paused it is %s, %v", v.State, err)
		}
	}
	if got := f.Machine(d.ID).Info().State; got != vm.StatePaused {
		t.Errorf("the machine is %s", got)
	}
	_, err := f.Host.Programs.Run(ctx, project, "one", api.Exec{Shell: "true"}, "")
	if e := problem(t, err); e.Code != api.CodePrecondition || e.Hint == "" {
		t.Errorf("a call to a paused desktop answers %+v", e)
	}
	if _, err := f.Host.Screen(ctx, project, "one"); err != nil {
		t.Errorf("its screen cannot be seen: %v", err)
	}
	kids, err := f.Host.Fork(ctx, project, "one", api.Fork{Name: "kid"}, "")
	if err != nil {
		t.Fatal(err)
	}
	ready(t, f, kids[0], nil)
	says(t, f, "kid", "salve")
	if got := f.Machine(d.ID).Info().State; got != vm.StatePaused {
		t.Errorf("after a fork the machine is %s", got)
	}
	f.Stop() // it stays so over a restart of the host
	f.Start()
	v, err := f.Host.Desktop(ctx, project, "one")
	if err != nil || v.State != api.StatePaused {
		t.Errorf("after a restart it is %s, %v", v.State, err)
	}
	for range 2 {
		v, err := f.Host.Power.Resume(ctx, project, "one")
		if err != nil || v.State != api.StateReady || v.Incarnation != d.Incarnation {
			t.Fatalf("resumed it is %+v, %v", v, err)
		}
	}
	says(t, f, "one", "salve")
}

func TestSuspendAndResume(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	d := greeting(f, "one")
	machines := len(f.Provider.Machines())
	for range 2 {
		v, err := f.Host.Power.Suspend(ctx, project, "one")
		if err != nil || v.State != api.StateSuspended {
			t.Fatalf("suspended it is %s, %v", v.State, err)
		}
	}
	if n := len(f.Provider.Machines()); n != machines-1 {
		t.Errorf("%d machines run", n)
	}
	_, err := f.Host.Programs.Run(ctx, project, "one", api.Exec{Shell: "true"}, "")
	if e := problem(t, err); e.Code != api.CodePrecondition || e.Hint == "" {
		t.Errorf("a call to a suspended desktop answers %+v", e)
	}
	kids, err := f.Host.Fork(ctx, project, "one", api.Fork{Name: "kid"}, "")
	if err != nil {
		t.Fatal(err)
	}
	ready(t, f, kids[0], nil)
	says(t, f, "kid", "salve")
	list, err := f.Host.Snapshots.List(ctx, project)
	if err != nil || len(list) != 2 || list[0].Kind != "suspended" || list[0].Desktop != d.ID {
		t.Errorf("snapshots are %+v, %v", list, err)
	}
	if err := f.Host.Snapshots.Remove(ctx, project, list[0].ID); problem(t, err).Code != api.CodePrecondition {
		t.Errorf("the memory of a suspended desktop can be removed: %v", err)
	}
	f.Stop()
	f.Start()
	for range 2 {
		v, err := f.Host.Power.Resume(ctx, project, "one")
		if err != nil || v.State != api.StateReady || v.Incarnation == d.Incarnation || v.Origin != api.OriginResume {
			t.Fatalf("resumed it is %+v, %v", v, err)
		}
	}
	says(t, f, "one", "salve")
	if ids := f.Provider.SnapshotIDs(); len(ids) != 1 {
		t.Errorf("snapshots are left: %v", ids)
	}
	if v, err := f.Host.Power.Suspend(ctx, project, "one"); err != nil {
		t.Fatalf("%+v, %v", v, err)
	}
	if err := f.Host.Delete(ctx, project, "one"); err != nil {
		t.Fatal(err)
	}
	if ids := f.Provider.SnapshotIDs(); len(ids) != 1 {
		t.Errorf("the memory of a deleted desktop is left: %v", ids)
	}
}

func TestSuspendThatFails(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	d := greeting(f, "one")
	f.Provider.OnSnapshot(func(context.Context, vm.SnapshotSpec) error { return vm.ErrNoSpace })
	v, err := f.Host.Power.Suspend(ctx, project, "one")
	if e := problem(t, err); e.Code != api.CodeNoSpace || v.State != api.StateReady {
		t.Errorf("it is %s: %+v", v.State, e)
	}
	if got := f.Machine(d.ID).Info().State; got != vm.StateRunning {
		t.Errorf("the machine is %s", got)
	}
	says(t, f, "one", "salve")
	f.Provider.OnSnapshot(nil)
	if _, err := f.Host.Power.Suspend(ctx, project, "one"); err != nil {
		t.Fatal(err)
	}
	f.Provider.OnClone(func(context.Context, vm.CloneSpec) error { return errors.New("stuck") })
	v, err = f.Host.Power.Resume(ctx, project, "one")
	if err == nil || v.State != api.StateSuspended {
		t.Errorf("a resume that failed left it %s, %v", v.State, err)
	}
	f.Provider.OnClone(nil)
	if _, err := f.Host.Power.Resume(ctx, project, "one"); err != nil {
		t.Fatal(err)
	}
	says(t, f, "one", "salve")
}

func TestRestore(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	d := greeting(f, "one")
	snap, err := f.Host.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: "before"}, "")
	if err != nil {
		t.Fatal(err)
	}
	old := f.Machine(d.ID)
	f.Provider.OnBorn(func(m *hosttest.Machine) { m.Guest.Stop() }) // unsound
	if _, err := f.Host.Power.Restore(ctx, project, "one", api.Restore{Snapshot: "never"}); err == nil {
		t.Error("restored to a snapshot that never was")
	}
	f.Provider.OnClone(func(context.Context, vm.CloneSpec) error { return errors.New("stuck") })
	v, err := f.Host.Power.Restore(ctx, project, "one", api.Restore{Snapshot: "before"})
	if err == nil || v.State != api.StateReady || v.Incarnation != d.Incarnation {
		t.Errorf("a restore that failed left %+v, %v", v, err)
	}
	says(t, f, "one", "salve")
	f.Provider.OnClone(nil)
	f.Provider.OnBorn(nil)
	sub := f.Host.Events().Subscribe(event.Filter{Desktop: d.ID}, f.Host.Events().Last())
	v, err = f.Host.Power.Restore(ctx, project, "one", api.Restore{Snapshot: "before"})
	if err != nil || v.ID != d.ID || v.Name != "one" || v.Incarnation == d.Incarnation || v.Origin != api.OriginRestore || v.Snapshot != snap.ID || v.State != api.StateReady {
		t.Fatalf("restored it is %+v, %v", v, err)
	}
	select {
	case <-old.Done():
	default:
		t.Error("the old machine runs on")
	}
	var types []string
	for !slices.Contains(types, event.TypeRestored) {
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
	}
	says(t, f, "one", "salve")
	f.Machine(d.ID).End(&vm.ExitError{Stage: "run", Status: "signal: killed"})
	until(t, f, d.ID, func(v api.Desktop) bool { return v.State == api.StateFailed })
	if v, err = f.Host.Power.Restore(ctx, project, "one", api.Restore{Snapshot: snap.ID}); err != nil || v.State != api.StateReady || v.Failure != nil {
		t.Errorf("a crashed one is restored as %+v, %v", v, err)
	}
	says(t, f, "one", "salve")
	if _, err := f.Host.Power.Suspend(ctx, project, "one"); err != nil {
		t.Fatal(err)
	}
	if v, err = f.Host.Power.Restore(ctx, project, "one", api.Restore{Snapshot: "before"}); err != nil || v.State != api.StateReady {
		t.Errorf("a suspended one is restored as %+v, %v", v, err)
	}
	if n := len(f.Provider.SnapshotIDs()); n != 2 {
		t.Errorf("%d snapshots are left, want the image's and the named one", n)
	}
	f.Stop()
	f.Start()
	if v, err = f.Host.Wait(ctx, project, "one", api.StageDrawn); err != nil || v.State != api.StateReady {
		t.Errorf("after a restart it is %+v, %v", v, err)
	}
	if n := len(f.Provider.Machines()); n != 1 {
		t.Errorf("%d machines run", n)
	}
}

func TestIdlePolicy(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	d := greeting(f, "one")
	v, err := f.Host.SetPolicy(ctx, project, "one", api.Policy{IdleS: 1, IdleAction: api.IdlePause})
	if err != nil || v.Policy.IdleS != 1 {
		t.Fatalf("%+v, %v", v, err)
	}
	until(t, f, d.ID, func(v api.Desktop) bool { return v.State == api.StatePaused })
	f.Stop() // which call let it rest is not forgotten
	f.Start()
	says(t, f, "one", "salve") // the call lets it run
	if v, err := f.Host.Desktop(ctx, project, "one"); err != nil || v.State != api.StateReady {
		t.Errorf("after a call it is %s, %v", v.State, err)
	}
	v, err = f.Host.SetPolicy(ctx, project, "one", api.Policy{TTLS: 1})
	if err != nil || !v.Expires.Equal(v.Created.Add(time.Second)) {
		t.Fatalf("%+v, %v", v, err)
	}
	sub := f.Host.Events().Subscribe(event.Filter{Desktop: d.ID}, 1)
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("it lives for ever: %v", err)
		}
		if e.Type == event.TypeDeleted {
			break
		}
	}
}

// TestTreeAfterRestore: a desktop that was put back to an instant of its own still
// came from where it came from.
func TestTreeAfterRestore(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	d := greeting(f, "one")
	for _, name := range []string{"before", "later"} { // the second is of the restored one
		if _, err := f.Host.Snapshots.Create(ctx, project, "one", api.CreateSnapshot{Name: name}, ""); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Host.Power.Restore(ctx, project, "one", api.Restore{Snapshot: name}); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := f.Host.Tree(ctx, project)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range tree.Nodes {
		if n.ID == d.ID && n.Parent != d.Snapshot {
			t.Errorf("it is below %s, want %s", n.Parent, d.Snapshot)
		}
	}
}

func TestTree(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	greeting(f, "root")
	kids, err := f.Host.Fork(ctx, project, "root", api.Fork{Name: "kid"}, "")
	if err != nil {
		t.Fatal(err)
	}
	ready(t, f, kids[0], nil)
	grand, err := f.Host.Fork(ctx, project, "kid", api.Fork{Name: "grandchild"}, "")
	if err != nil {
		t.Fatal(err)
	}
	ready(t, f, grand[0], nil)
	for _, name := range []string{"root", "kid"} {
		if err := f.Host.Delete(ctx, project, name); err != nil {
			t.Fatal(err)
		}
	}
	draw := func() string {
		tree, err := f.Host.Tree(ctx, project)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, n := range tree.Nodes {
			b.WriteString(n.Kind + " " + n.Name)
			if n.Gone {
				b.WriteString(" (gone)")
			}
			b.WriteString("; ")
		}
		return b.String()
	}
	if got := draw(); got != "image test; snapshot boot; desktop root (gone); desktop kid (gone); snapshot fork (gone); desktop grandchild; " {
		t.Errorf("tree is %s", got)
	}
	if err := f.Host.Delete(ctx, project, "grandchild"); err != nil {
		t.Fatal(err)
	}
	if got := draw(); got != "image test; snapshot boot; " {
		t.Errorf("tree of nothing is %s", got)
	}
}
