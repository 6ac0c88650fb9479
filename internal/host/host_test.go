package host_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/admission"
	"github.com/deskfork/deskfork/internal/host/boot"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/vm"
)

const project = hosttest.Project

// patient bounds a test's waits; nothing in memory takes that long, on a host that
// is busy with other tests either.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// hasty makes stages give up soon.
func hasty(limits boot.Limits) func(*host.Config) {
	return func(c *host.Config) {
		d := boot.DefaultLimits()
		pairs := map[*time.Duration]time.Duration{
			&d.Machine: limits.Machine, &d.Link: limits.Link, &d.Handshake: limits.Handshake,
			&d.Session: limits.Session, &d.Drawn: limits.Drawn,
		}
		for to, from := range pairs {
			if from != 0 {
				*to = from
			}
		}
		c.Limits = d
	}
}

// problem is err as an API error.
func problem(t *testing.T, err error) *api.Error {
	t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok {
		t.Fatalf("error is %v (%T), want an *api.Error", err, err)
	}
	return e
}

func TestLifeCycle(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	sub := f.Host.Events().Subscribe(event.Filter{Project: project}, f.Host.Events().Last())
	d := f.Create(api.CreateDesktop{Name: "one", Env: map[string]string{"GREETING": "salve"}, Labels: map[string]string{"a": "b"}, Cold: true})
	var stages []api.Stage
	for _, s := range d.Stages {
		stages = append(stages, s.Stage)
	}
	want := []api.Stage{
		api.StageAdmission, api.StageMachine, api.StageLink, api.StageHandshake, api.StageSession, api.StageDrawn,
	}
	if diff := cmp.Diff(want, stages); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	res, err := f.Host.Programs.Run(ctx, project, "one", api.Exec{Shell: "echo $GREETING; exit 3"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if string(res.Stdout) != "salve\n" || res.ExitCode != 3 {
		t.Errorf("exec answered %q, %d", res.Stdout, res.ExitCode)
	}
	kernel := f.Machine(d.ID).Guest.Kernel.State()
	if len(kernel.Mounts) != 1 || len(kernel.Entropy) == 0 {
		t.Errorf("handshake did %+v", kernel)
	}
	if err := f.Host.Delete(ctx, project, "one"); err != nil {
		t.Fatal(err)
	}
	if n := len(f.Provider.Machines()); n != 0 {
		t.Errorf("%d machines are left", n)
	}
	if err := f.Host.Delete(ctx, project, d.ID); err != nil {
		t.Errorf("second delete: %v", err)
	}
	if err := f.Host.Delete(ctx, project, "never"); problem(t, err).Code != api.CodeNotFound {
		t.Errorf("delete of what never was: %v", err)
	}
	_, err = f.Host.Desktop(ctx, project, d.ID)
	if e := problem(t, err); e.Code != api.CodeNotFound || !strings.Contains(e.Hint, "deleted at") {
		t.Errorf("a deleted desktop answers %+v", e)
	}
	var types []string
	for len(types) == 0 || types[len(types)-1] != event.TypeDeleted {
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
	}
	wantTypes := slices.Concat([]string{event.TypeCreated}, slices.Repeat([]string{event.TypeStage}, 5), []string{event.TypeReady, event.TypeDeleted})
	if diff := cmp.Diff(wantTypes, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestNames(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	first := f.Create(api.CreateDesktop{Name: "same"})
	_, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test", Name: "same"}, "")
	if e := problem(t, faulted(err)); e.Code != api.CodeConflict || e.Hint == "" {
		t.Errorf("a taken name answers %+v", e)
	}
	other, err := f.Host.Create(ctx, "other", api.CreateDesktop{Image: "test", Name: "same"}, "")
	if err != nil {
		t.Fatalf("the same name in another project: %v", err)
	}
	if _, err := f.Host.Desktop(ctx, project, other.ID); problem(t, err).Code != api.CodeNotFound {
		t.Error("a desktop is seen from another project")
	}
	if err := f.Host.Delete(ctx, project, "same"); err != nil {
		t.Fatal(err)
	}
	again := f.Create(api.CreateDesktop{Name: "same"})
	if again.ID == first.ID || again.Incarnation == first.Incarnation {
		t.Error("an id was used twice")
	}
	if len(again.ID) > 12 || len(again.Incarnation) > 12 {
		t.Errorf("ids %q, %q are longer than 12", again.ID, again.Incarnation)
	}
}

func TestIdempotency(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	req := api.CreateDesktop{Image: "test", Name: "one"}
	var mu sync.Mutex
	ids := map[string]int{}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			d, err := f.Host.Create(ctx, project, req, "key-1")
			if err != nil {
				t.Errorf("create: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			ids[d.ID]++
		})
	}
	all.Wait()
	if len(ids) != 1 {
		t.Errorf("one key made %v", ids)
	}
	req.Name = "two"
	_, err := f.Host.Create(ctx, project, req, "key-1")
	if e := problem(t, faulted(err)); e.Code != api.CodeConflict {
		t.Errorf("another body under the key answers %+v", e)
	}
	if _, err := f.Host.Create(ctx, "other", req, "key-1"); err != nil {
		t.Errorf("the key in another project: %v", err)
	}
	_, err = f.Host.Create(ctx, project, req, strings.Repeat("k", 129))
	if problem(t, err).Code != api.CodeInvalid {
		t.Errorf("a long key answers %v", err)
	}
	f.Stop()
	f.Start()
	req.Name = "one"
	d, err := f.Host.Create(ctx, project, req, "key-1")
	if err != nil || ids[d.ID] == 0 {
		t.Errorf("after a restart the key made %q, %v", d.ID, err)
	}
}

func TestRefusedCreateLeavesKeyUnused(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	f.SetFree(admission.Usage{MemoryAvailable: 1 << 30, DiskAvailable: 100 << 30})
	req := api.CreateDesktop{Image: "test"}
	_, err := f.Host.Create(ctx, project, req, "k")
	e := problem(t, faulted(err))
	if e.Code != api.CodeNoCapacity || e.Stage != string(api.StageAdmission) {
		t.Fatalf("refusal is %+v", e)
	}
	for _, number := range []string{"2304", "2048", "256", "1024", "512"} {
		if !strings.Contains(e.Detail, number) {
			t.Errorf("the refusal %q does not say %s", e.Detail, number)
		}
	}
	f.SetFree(admission.Usage{MemoryAvailable: 20 << 30, DiskAvailable: 100 << 30})
	if _, err := f.Host.Create(ctx, project, req, "k"); err != nil {
		t.Errorf("the same key later: %v", err)
	}
}

// TestClonesAreAdmitted: what brings changed pages of its own needs room for them,
// a child as well as a desktop that comes back.
func TestClonesAreAdmitted(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	d := f.Create(api.CreateDesktop{Name: "one"})
	room := func(mib int64) {
		f.SetFree(admission.Usage{MemoryAvailable: mib << 20, DiskAvailable: 100 << 30})
	}
	refused := func(what string, err error) {
		t.Helper()
		e := problem(t, faulted(err))
		if e.Code != api.CodeNoCapacity || !strings.Contains(e.Detail, "1 changed since its template, 160 of a clone's own") {
			t.Errorf("%s: %+v", what, e)
		}
	}
	const one = 1 + 160 // the fake has 1 MiB changed
	settled := func() { // nothing starts any more
		room(512)
		for {
			_, err := f.Host.Fork(ctx, project, d.ID, api.Fork{}, "")
			if e := problem(t, faulted(err)); e.Code != api.CodeNoCapacity {
				t.Fatalf("without room: %+v", e)
			} else if strings.Contains(e.Detail, "0 reserved by 0 starting") {
				return
			}
			<-time.After(time.Millisecond)
		}
	}
	settled()
	room(512 + 2*one - 1)
	_, err := f.Host.Fork(ctx, project, d.ID, api.Fork{Count: 2}, "")
	refused("two children", err)
	room(512 + 2*one)
	if _, err := f.Host.Fork(ctx, project, d.ID, api.Fork{Count: 2}, ""); err != nil {
		t.Error(err)
	}
	settled()
	if _, err := f.Host.Power.Suspend(ctx, project, d.ID); err != nil {
		t.Fatal(err)
	}
	room(512 + one - 1)
	_, err = f.Host.Power.Resume(ctx, project, d.ID)
	refused("the way back", err)
	if now, err := f.Host.Desktop(ctx, project, d.ID); err != nil || now.State != api.StateSuspended {
		t.Errorf("then it is %s, %v", now.State, err)
	}
	room(512 + one)
	if _, err := f.Host.Power.Resume(ctx, project, d.ID); err != nil {
		t.Error(err)
	}
}

func TestExecKey(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	f.Create(api.CreateDesktop{Name: "one"})
	file := filepath.Join(t.TempDir(), "count")
	req := api.Exec{Argv: []string{"sh", "-c", "echo x >> " + file}}
	for range 3 {
		if _, err := f.Host.Programs.Start(ctx, project, "one", req, "k"); err != nil {
			t.Fatal(err)
		}
	}
	list, err := f.Host.Guest(ctx, project, "one")
	if err != nil {
		t.Fatal(err)
	}
	all, err := list.Execs.List(ctx)
	if err != nil || len(all) != 1 {
		t.Errorf("one key started %d programs, %v", len(all), err)
	}
	if _, err := f.Host.Programs.Start(ctx, project, "one", req, "k2"); err != nil {
		t.Fatal(err)
	}
	if all, err = list.Execs.List(ctx); err != nil || len(all) != 2 {
		t.Errorf("two keys started %d programs, %v", len(all), err)
	}
	sub := f.Host.Events().Subscribe(event.Filter{Project: project}, 1)
	for {
		e, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("wait for the end of the program: %v", err)
		}
		if e.Type == event.TypeExecEnded {
			break
		}
	}
	req.Dir = "/"
	_, err = f.Host.Programs.Start(ctx, project, "one", req, "k")
	if problem(t, faulted(err)).Code != api.CodeConflict {
		t.Errorf("another program under the key answers %v", err)
	}
}

func TestStageFailures(t *testing.T) {
	soon := 2 * time.Second // long enough that the stage has looked for what it waits for
	tests := []struct {
		name   string
		limits boot.Limits
		create func(context.Context, vm.Spec) error
		guest  guesttest.Config
		blank  bool
		after  func(*hosttest.Machine)
		stage  api.Stage
		code   api.Code
		says   string // in the detail
		log    string
	}{
		{
			name: "hypervisor dies at start",
			create: func(context.Context, vm.Spec) error {
				return &vm.ExitError{Stage: "start", Status: "exit status 1", Stderr: "no such device"}
			},
			stage: "start", code: api.CodeMachineFailed, says: "exit status 1", log: "no such device",
		},
		{
			name:   "provider hangs",
			limits: boot.Limits{Machine: soon},
			create: func(ctx context.Context, _ vm.Spec) error { <-ctx.Done(); return ctx.Err() },
			stage:  api.StageMachine, code: api.CodeMachineFailed, says: "not reached within 2s",
		},
		{
			name:   "disk full",
			create: func(context.Context, vm.Spec) error { return &vm.StageError{Stage: "system-disk", Err: vm.ErrNoSpace} },
			stage:  "system-disk", code: api.CodeNoSpace,
		},
		{
			name:  "no session",
			guest: guesttest.Config{NoDesktop: true}, limits: boot.Limits{Session: soon},
			stage: api.StageSession, code: api.CodeGuestFailed, says: "the helper in the X session has not answered", log: "login:",
		},
		{
			name: "blank screen", blank: true, limits: boot.Limits{Drawn: soon},
			stage: api.StageDrawn, code: api.CodeGuestFailed, says: "the screen is blank", log: "login:",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosttest.NoLeaks(t)
			f := hosttest.New(t, hasty(tt.limits))
			f.Provider.OnCreate(tt.create)
			f.Provider.GuestOf(func(vm.Spec) guesttest.Config { return tt.guest })
			if tt.blank {
				f.Screen.Blank()
			}
			ctx := patient(t)
			d, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test", Cold: true}, "")
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Host.Wait(ctx, project, d.ID, api.StageDrawn)
			e := problem(t, err)
			if e.Code != tt.code || e.Stage != string(tt.stage) {
				t.Errorf("failure is %s at %q, want %s at %q: %s", e.Code, e.Stage, tt.code, tt.stage, e.Detail)
			}
			if !strings.Contains(e.Detail, tt.says) || !strings.Contains(e.Log, tt.log) {
				t.Errorf("failure says %q with log %q", e.Detail, e.Log)
			}
			v, err := f.Host.Desktop(ctx, project, d.ID)
			if err != nil || v.State != api.StateFailed {
				t.Errorf("desktop is %s, %v", v.State, err)
			}
			if err := f.Host.Delete(ctx, project, d.ID); err != nil {
				t.Errorf("delete: %v", err)
			}
			if n := len(f.Provider.Machines()); n != 0 {
				t.Errorf("%d machines left", n)
			}
		})
	}
}
