package host_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

// ready makes a desktop ready, or ends the test.
func ready(t *testing.T, f *hosttest.Fixture, v api.Desktop, err error) api.Desktop {
	t.Helper()
	ctx := patient(t)
	if err == nil {
		v, err = f.Host.Wait(ctx, project, v.ID, api.StageDrawn)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// says runs a program that tells what a desktop's environment has.
func says(t *testing.T, f *hosttest.Fixture, ref, want string) {
	t.Helper()
	res, err := f.Host.Programs.Run(patient(t), project, ref, api.Exec{Shell: "echo $GREETING"}, "")
	if err != nil || strings.TrimSpace(string(res.Stdout)) != want {
		t.Errorf("%s says %q, %v; want %q", ref, res.Stdout, err, want)
	}
}

func TestCreateClonesBootSnapshot(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	var all sync.WaitGroup
	for range 5 { // they wait for one making
		all.Go(func() {
			v, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test", Env: map[string]string{"GREETING": "salve"}}, "")
			if err == nil {
				v, err = f.Host.Wait(ctx, project, v.ID, api.StageDrawn)
			}
			if err != nil {
				t.Errorf("create: %v", err)
				return
			}
			if v.Origin != api.OriginTemplate || v.OriginReason != "" || v.Snapshot == "" || len(v.Stages) != 6 {
				t.Errorf("desktop is %+v", v)
			}
			says(t, f, v.ID, "salve")
		})
	}
	all.Wait()
	if n := len(f.Provider.Machines()); n != 5 {
		t.Errorf("%d machines, want the desktops' alone", n)
	}
	ids := f.Provider.SnapshotIDs()
	if len(ids) != 1 {
		t.Fatalf("snapshots are %v, want one", ids)
	}
	list, err := f.Host.Snapshots.List(ctx, project)
	if err != nil || len(list) != 1 || list[0].Kind != "boot" || list[0].UsedBy != 5 {
		t.Errorf("listed are %+v, %v", list, err)
	}
	for _, m := range f.Provider.Machines() {
		of, _ := m.Origin()
		kernel := m.Guest.Kernel.State()
		if of == nil || len(kernel.Mounts) != 1 || len(kernel.Entropy) == 0 {
			t.Errorf("clone %s: handshake did %+v", m.Spec.ID, kernel)
		}
	}
	f.Stop()
	f.Start() // the next run finds it
	v := f.Create(api.CreateDesktop{Name: "later"})
	if v.Snapshot != string(ids[0]) || len(f.Provider.SnapshotIDs()) != 1 {
		t.Errorf("after a restart it is cloned from %s, want %s", v.Snapshot, ids[0])
	}
	cold := f.Create(api.CreateDesktop{Name: "cold", Cold: true})
	if cold.Origin != api.OriginCold {
		t.Errorf("a cold one is of origin %s", cold.Origin)
	}
}

// TestFirstCreateSaysWhatItWaitsFor: the first desktop of an image waits for its
// boot snapshot; who looks at it, or at the events, is told so, and how far that is.
func TestFirstCreateSaysWhatItWaitsFor(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	sealing, goOn := make(chan struct{}), make(chan struct{})
	f.Provider.OnSnapshot(func(context.Context, vm.SnapshotSpec) error {
		close(sealing)
		<-goOn
		return nil
	})
	sub := f.Host.Events().Subscribe(event.Filter{Project: project}, f.Host.Events().Last())
	v, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test"}, "")
	if err != nil {
		t.Fatal(err)
	}
	<-sealing
	var said []string
	for len(said) == 0 || !strings.Contains(said[len(said)-1], "written to disk") {
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("after %q: %v", said, err)
		}
		if e.Type == event.TypeWaiting {
			said = append(said, e.Data["for"].(string))
		}
	}
	now, err := f.Host.Desktop(ctx, project, v.ID)
	if err != nil || !strings.Contains(now.Waiting, "is being sealed, once: it is written to disk (") {
		t.Errorf("waits for %q, %v", now.Waiting, err)
	}
	close(goOn)
	if now = ready(t, f, v, nil); now.Waiting != "" {
		t.Errorf("a ready one waits for %q", now.Waiting)
	}
}

// TestDeleteWhileItStarts: who waits for a desktop that somebody deletes is told
// just that, at once or when he comes back.
func TestDeleteWhileItStarts(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	sealing := make(chan struct{})
	f.Provider.OnSnapshot(func(ctx context.Context, _ vm.SnapshotSpec) error {
		close(sealing)
		<-ctx.Done()
		return ctx.Err()
	})
	v, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test", Name: "one"}, "")
	if err != nil {
		t.Fatal(err)
	}
	<-sealing
	waited := make(chan error, 1)
	go func() {
		_, err := f.Host.Wait(ctx, project, v.ID, api.StageDrawn)
		waited <- err
	}()
	if err := f.Host.Delete(ctx, project, v.ID); err != nil {
		t.Error(err)
	}
	_, later := f.Host.Wait(ctx, project, v.ID, api.StageLink)
	for _, err := range []error{<-waited, later} {
		if e := problem(t, err); e.Code != api.CodePrecondition || !strings.Contains(e.Detail, "desktop one was deleted before it reached the stage ") {
			t.Errorf("who waits is told %+v", e)
		}
	}
	f.Stop() // the sealing ends with it
}

func TestColdBootWhereClonesCannotBe(t *testing.T) {
	tests := []struct {
		name   string
		spoil  func(*hosttest.Fixture)
		again  bool // a boot snapshot was made before
		origin api.Origin
		says   string
	}{
		{"sealing fails", func(f *hosttest.Fixture) {
			f.Provider.OnSnapshot(func(context.Context, vm.SnapshotSpec) error { return vm.ErrNoSpace })
		}, false, api.OriginCold, "no space left"},
		{"another kind of host", func(f *hosttest.Fixture) {
			f.Provider.OnClone(func(context.Context, vm.CloneSpec) error { return vm.ErrHostClass })
		}, true, api.OriginCold, "does not fit this host"},
		{"a damaged template", func(f *hosttest.Fixture) { f.Provider.Damage(f.Provider.SnapshotIDs()[0]) }, true, api.OriginTemplate, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosttest.NoLeaks(t)
			f := hosttest.New(t)
			ctx := patient(t)
			var old []vm.SnapshotID
			if tt.again {
				if _, err := f.Host.SealBoot(ctx, "test", api.SealImage{}); err != nil {
					t.Fatal(err)
				}
				old = f.Provider.SnapshotIDs()
			}
			tt.spoil(f)
			v := f.Create(api.CreateDesktop{Name: "one", Env: map[string]string{"GREETING": "salve"}})
			if v.Origin != tt.origin || !strings.Contains(v.OriginReason, tt.says) || (tt.says == "") != (v.OriginReason == "") {
				t.Errorf("origin is %s because of %q", v.Origin, v.OriginReason)
			}
			says(t, f, "one", "salve")
			for _, id := range f.Provider.SnapshotIDs() {
				if len(old) > 0 && id == old[0] {
					t.Error("the boot snapshot that does not serve is still there")
				}
			}
			if n := len(f.Provider.Machines()); n != 1 {
				t.Errorf("%d machines are left", n)
			}
		})
	}
}

// TestBootSnapshotOfAnotherHost: after an upgrade of the hypervisor the old boot
// snapshot goes, and another is made.
func TestBootSnapshotOfAnotherHost(t *testing.T) {
	f := hosttest.New(t)
	f.Create(api.CreateDesktop{Name: "one"})
	old := f.Provider.SnapshotIDs()
	f.Stop()
	f.Provider.SetHostClass(vm.HostClass{Provider: "memory", Version: "2", Machine: "memory", CPU: "none", Accelerator: vm.AccelKVM})
	f.Start()
	v := f.Create(api.CreateDesktop{Name: "two"})
	if now := f.Provider.SnapshotIDs(); v.Origin != api.OriginTemplate || len(now) != 1 || now[0] == old[0] {
		t.Errorf("origin is %s of %v, before %v", v.Origin, now, old)
	}
}

func TestUnsoundCloneIsNotHandedOut(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	f.Provider.OnBorn(func(m *hosttest.Machine) {
		if of, _ := m.Origin(); of != nil {
			m.Guest.Kernel.Repeat("the same")
		}
	})
	f.Create(api.CreateDesktop{Name: "one"})
	v, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test", Name: "twin"}, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Host.Wait(ctx, project, v.ID, api.StageDrawn)
	if e := problem(t, err); e.Code != api.CodeGuestFailed || e.Stage != string(api.StageHandshake) || !strings.Contains(e.Detail, "random UUID") || e.Log == "" {
		t.Errorf("a twin's failure is %+v", e)
	}
	if _, err := f.Host.Guest(ctx, project, "twin"); problem(t, err).Code != api.CodePrecondition {
		t.Errorf("an unsound clone can be used: %v", err)
	}
	if n := len(f.Provider.Machines()); n != 1 {
		t.Errorf("%d machines are left, want that of the sound one", n)
	}
}

func TestFork(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	parent := f.Create(api.CreateDesktop{
		Name: "parent", Env: map[string]string{"GREETING": "salve", "A": "1"}, Labels: map[string]string{"team": "x"}, Network: "none",
		Policy: api.Policy{TTLS: 3600},
	})
	before := len(f.Provider.SnapshotIDs())
	sub := f.Host.Events().Subscribe(event.Filter{Desktop: parent.ID}, f.Host.Events().Last())
	kids, err := f.Host.Fork(ctx, project, "parent", api.Fork{Count: 3, Name: "kid", Env: map[string]string{"GREETING": "ave"}}, "")
	if err != nil || len(kids) != 3 {
		t.Fatalf("fork made %d, %v", len(kids), err)
	}
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("the fork was not told of: %v", err)
		}
		if e.Type == event.TypeForked {
			break
		}
	}
	incarnations := map[string]bool{parent.Incarnation: true}
	for _, kid := range kids {
		kid = ready(t, f, kid, nil)
		if kid.Parent != parent.ID || kid.Origin != api.OriginFork || kid.Labels["team"] != "x" || kid.Env["A"] != "1" ||
			kid.Network != "none" || kid.Policy.TTLS != 3600 || kid.Expires.IsZero() || incarnations[kid.Incarnation] {
			t.Errorf("child is %+v", kid)
		}
		incarnations[kid.Incarnation] = true
		says(t, f, kid.Name, "ave")
		of, _ := f.Machine(kid.ID).Origin()
		if of == nil || string(of.Spec().ID) != parent.ID {
			t.Errorf("child %s is not of its parent's instant", kid.Name)
		}
	}
	if kids[0].Name != "kid-1" || kids[2].Name != "kid-3" {
		t.Errorf("names are %s, …, %s", kids[0].Name, kids[2].Name)
	}
	says(t, f, "parent", "salve")
	grand, err := f.Host.Fork(ctx, project, "kid-1", api.Fork{Name: "grandchild"}, "")
	if err != nil {
		t.Fatal(err)
	}
	ready(t, f, grand[0], nil)
	if err := f.Host.Delete(ctx, project, "parent"); err != nil {
		t.Fatal(err)
	}
	says(t, f, "grandchild", "ave")
	if n := len(f.Provider.SnapshotIDs()); n != before {
		t.Errorf("%d snapshots are left of the forks", n-before)
	}
	_, err = f.Host.Fork(ctx, project, "kid-1", api.Fork{Name: "kid-2"}, "")
	if e := problem(t, faulted(err)); e.Code != api.CodeConflict {
		t.Errorf("a taken name answers %+v", e)
	}
}

// TestForkOfPlainScreen: a child whose parent showed one colour may show one
// colour; no other may.
func TestForkOfPlainScreen(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	parent := f.Create(api.CreateDesktop{Name: "parent"})
	snap, err := f.Host.Snapshots.Create(ctx, project, "parent", api.CreateSnapshot{Name: "lit"}, "")
	if err != nil {
		t.Fatal(err)
	}
	f.Screen.Blank()
	kids, err := f.Host.Fork(ctx, project, parent.ID, api.Fork{}, "")
	if err != nil {
		t.Fatal(err)
	}
	ready(t, f, kids[0], nil)
	f.Stop()
	f.Config.CloneLimits.Drawn = 2 * time.Second // so long it waits for a picture
	f.Start()
	v, err := f.Host.Create(ctx, project, api.CreateDesktop{Snapshot: snap.ID}, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Host.Wait(ctx, project, v.ID, api.StageDrawn)
	if e := problem(t, err); e.Stage != string(api.StageDrawn) || !strings.Contains(e.Detail, "the screen is blank") {
		t.Errorf("a clone that lost its picture: %+v", e)
	}
}

func TestForkKey(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	f.Create(api.CreateDesktop{Name: "parent"})
	first, err := f.Host.Fork(ctx, project, "parent", api.Fork{Count: 2}, "k")
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.Host.Fork(ctx, project, "parent", api.Fork{Count: 2}, "k")
	if err != nil || len(again) != 2 || again[0].ID != first[0].ID || again[1].ID != first[1].ID {
		t.Errorf("the key made %v, then %v, %v", first, again, err)
	}
}

func TestForkFailures(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	parent := f.Create(api.CreateDesktop{Name: "parent", Env: map[string]string{"GREETING": "salve"}})
	before := len(f.Provider.SnapshotIDs())
	var mu sync.Mutex
	n := 0
	f.Provider.OnClone(func(context.Context, vm.CloneSpec) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n == 2 {
			return &vm.ExitError{Stage: "start", Status: "exit status 1", Stderr: "no such device"}
		}
		return nil
	})
	kids, err := f.Host.Fork(ctx, project, "parent", api.Fork{Count: 3}, "")
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, kid := range kids {
		v, err := f.Host.Wait(ctx, project, kid.ID, api.StageDrawn)
		if err == nil {
			continue
		}
		failed++
		if e := problem(t, err); e.Code != api.CodeMachineFailed || e.Log != "no such device" || v.State != api.StateFailed {
			t.Errorf("failed child says %+v", e)
		}
	}
	if failed != 1 {
		t.Errorf("%d children failed, want 1", failed)
	}
	if n := len(f.Provider.SnapshotIDs()); n != before {
		t.Errorf("the instant is still there")
	}
	f.Provider.OnSnapshot(func(context.Context, vm.SnapshotSpec) error { return errors.New("stuck") })
	if _, err := f.Host.Fork(ctx, project, "parent", api.Fork{}, ""); err == nil {
		t.Error("a fork without an instant succeeded")
	}
	says(t, f, parent.ID, "salve")
	list, err := f.Host.Desktops(ctx, project, host.ListFilter{})
	if err != nil || len(list) != 4 {
		t.Errorf("%d desktops are listed, %v; want 4", len(list), err)
	}
}
