package host_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/guestd/guesttest"
	"github.com/deskfork/deskfork/internal/host"
	"github.com/deskfork/deskfork/internal/host/access"
	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/event"
	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/token"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
	"github.com/deskfork/deskfork/pkg/vm"
)

func TestDeleteDuringStart(t *testing.T) {
	tests := []struct {
		name   string
		create func(context.Context, vm.Spec) error
		guest  guesttest.Config
		until  api.Stage
	}{
		{"in the provider", func(ctx context.Context, _ vm.Spec) error { <-ctx.Done(); return ctx.Err() }, guesttest.Config{}, api.StageAdmission},
		{"without a session", nil, guesttest.Config{NoDesktop: true}, api.StageHandshake},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosttest.NoLeaks(t)
			f := hosttest.New(t)
			f.Provider.OnCreate(tt.create)
			f.Provider.GuestOf(func(vm.Spec) guesttest.Config { return tt.guest })
			ctx := patient(t)
			d, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test", Name: "one", Cold: true}, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Host.Wait(ctx, project, d.ID, tt.until); err != nil {
				t.Fatal(err)
			}
			if err := f.Host.Delete(ctx, project, d.ID); err != nil {
				t.Fatal(err)
			}
			if n := len(f.Provider.Machines()); n != 0 {
				t.Errorf("%d machines left", n)
			}
			list, err := f.Host.Desktops(ctx, project, host.ListFilter{})
			if err != nil || len(list) != 0 {
				t.Errorf("%d desktops listed, %v", len(list), err)
			}
		})
	}
}

func TestStuckDesktopHoldsUpNoOther(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	release := make(chan struct{})
	var once sync.Once
	t.Cleanup(func() { once.Do(func() { close(release) }) })
	f.Provider.OnCreate(func(_ context.Context, s vm.Spec) error {
		if s.Shape.Name == "large" {
			<-release // deaf to its context, as a bad provider is
			return errors.New("too late")
		}
		return nil
	})
	stuck, err := f.Host.Create(ctx, project, api.CreateDesktop{Image: "test", Name: "stuck", Shape: "large", Cold: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	f.Create(api.CreateDesktop{Name: "free"})
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	err = f.Host.Delete(short, project, stuck.ID)
	if e := problem(t, faulted(err)); e.Code != api.CodeDeadline {
		t.Errorf("delete of a stuck desktop answers %+v", e)
	}
	if err := f.Host.Delete(ctx, project, "free"); err != nil {
		t.Errorf("delete of the other: %v", err)
	}
	once.Do(func() { close(release) })
	if err := f.Host.Delete(ctx, project, stuck.ID); err != nil {
		t.Errorf("delete once it is free: %v", err)
	}
}

func TestEndOfMachine(t *testing.T) {
	tests := []struct {
		name  string
		err   error
		state api.DesktopState
	}{
		{"guest switches itself off", vm.ErrGuestShutdown, api.StateStopped},
		{"crash", &vm.ExitError{Stage: "run", Status: "signal: killed", Stderr: "out of memory"}, api.StateFailed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosttest.NoLeaks(t)
			f := hosttest.New(t)
			ctx := patient(t)
			d := f.Create(api.CreateDesktop{Name: "one"})
			f.Machine(d.ID).End(tt.err)
			v := until(t, f, d.ID, func(v api.Desktop) bool { return v.State != api.StateReady })
			if v.State != tt.state {
				t.Errorf("state is %s, want %s", v.State, tt.state)
			}
			if tt.state == api.StateFailed && (v.Failure == nil || v.Failure.Log != "out of memory" || v.Failure.Code != api.CodeMachineFailed) {
				t.Errorf("failure is %+v", v.Failure)
			}
			_, err := f.Host.Programs.Run(ctx, project, d.ID, api.Exec{Shell: "true"}, "")
			if problem(t, err).Code != api.CodePrecondition {
				t.Errorf("exec answers %v", err)
			}
			var log strings.Builder
			if err := f.Host.Logs(ctx, project, d.ID, host.LogRequest{Source: host.LogSerial, Lines: 1}, &log); err != nil || log.String() != "login:\n" {
				t.Errorf("log is %q, %v", log.String(), err)
			}
			if err := f.Host.Delete(ctx, project, d.ID); err != nil {
				t.Error(err)
			}
		})
	}
}

// until waits for a state by the desktop's events.
func until(t *testing.T, f *hosttest.Fixture, id string, ok func(api.Desktop) bool) api.Desktop {
	t.Helper()
	ctx := patient(t)
	sub := f.Host.Events().Subscribe(event.Filter{Desktop: id}, 1)
	for {
		v, err := f.Host.Desktop(ctx, project, id)
		if err != nil {
			t.Fatal(err)
		}
		if ok(v) {
			return v
		}
		if _, err := sub.Next(ctx); err != nil {
			t.Fatalf("wait for desktop: %v; it is %+v", err, v)
		}
	}
}

func TestFailedRemovalIsTriedAgain(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	d := f.Create(api.CreateDesktop{Name: "one"})
	var mu sync.Mutex
	left := 1
	f.Machine(d.ID).OnDestroy(func() error {
		mu.Lock()
		defer mu.Unlock()
		if left--; left >= 0 {
			return errors.New("the directory is busy")
		}
		return nil
	})
	err := f.Host.Delete(ctx, project, d.ID)
	if e := problem(t, err); !strings.Contains(e.Detail, "busy") || e.Stage != "delete" {
		t.Errorf("a failed removal answers %+v", e)
	}
	if err := f.Host.Delete(ctx, project, d.ID); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}

func TestRestart(t *testing.T) {
	hosttest.NoLeaks(t)
	f := hosttest.New(t)
	ctx := patient(t)
	kept := f.Create(api.CreateDesktop{Name: "kept", Env: map[string]string{"A": "kept"}})
	lost := f.Create(api.CreateDesktop{Name: "lost"})
	going := f.Create(api.CreateDesktop{Name: "going"})
	st, err := f.Host.Programs.Start(ctx, project, "kept", api.Exec{Argv: []string{"sleep", "600"}}, "")
	if err != nil {
		t.Fatal(err)
	}
	// A deletion that the host does not live to finish.
	f.Machine(going.ID).OnDestroy(func() error { return errors.New("not yet") })
	if err := f.Host.Delete(ctx, project, going.ID); err == nil {
		t.Fatal("the deletion did not fail")
	}
	stray := f.Machine(lost.ID)
	f.Stop()

	f.Machine(going.ID).OnDestroy(nil)
	stray.End(nil)
	orphan, err := f.Provider.Create(ctx, vm.Spec{
		ID: "dorphan", Incarnation: "iorphan", Shape: vm.Shapes()[0], Width: 800, Height: 600, Network: vm.NetworkOpen,
		System: vm.Disk{SizeMiB: 1}, Workspace: vm.Disk{SizeMiB: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Start()

	v, err := f.Host.Wait(ctx, project, "kept", api.StageDrawn)
	if err != nil || !v.Adopted || v.State != api.StateReady || v.Incarnation != kept.Incarnation {
		t.Fatalf("kept desktop is %+v, %v", v, err)
	}
	res, err := f.Host.Programs.Run(ctx, project, "kept", api.Exec{Shell: "echo $A"}, "")
	if err != nil || string(res.Stdout) != "kept\n" {
		t.Errorf("exec answers %q, %v", res.Stdout, err)
	}
	l, err := f.Host.Guest(ctx, project, "kept")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := l.Execs.Status(ctx, guest.ExecID(st.ID)); err != nil || !got.Running {
		t.Errorf("the program is %+v, %v", got, err)
	}
	v = until(t, f, lost.ID, func(v api.Desktop) bool { return v.State == api.StateFailed })
	if v.Failure == nil || v.Failure.Code != api.CodeMachineFailed {
		t.Errorf("lost desktop's failure is %+v", v.Failure)
	}
	if err := f.Host.Delete(ctx, project, going.ID); err != nil {
		t.Errorf("the deletion is not finished: %v", err)
	}
	select {
	case <-orphan.Done():
	default:
		t.Error("a machine without a desktop still runs")
	}
	if n := len(f.Provider.Machines()); n != 1 {
		t.Errorf("%d machines are left, want 1", n)
	}
}

func TestFirstToken(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	path, err := f.Host.FirstToken(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, filepath.Join(f.Config.DataDir, host.DatabaseName)} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != fs.FileMode(0o600) {
			t.Errorf("mode of %s is %v, %v", name, info.Mode(), err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	secret := strings.TrimSpace(string(text))
	p, err := f.Host.Access.Authenticate(ctx, secret)
	if err != nil || !p.Can(token.ScopeAdmin) || p.Project != access.DefaultProject {
		t.Errorf("principal is %+v, %v", p, err)
	}
	if _, err := f.Host.FirstToken(ctx); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || string(again) != string(text) {
		t.Errorf("the file changed: %v", err)
	}
	db, err := os.ReadFile(filepath.Join(f.Config.DataDir, host.DatabaseName))
	if err != nil || strings.Contains(string(db), secret) {
		t.Errorf("the database holds the token in the clear (%v)", err)
	}
	if err := f.Host.Access.Delete(ctx, p.TokenID); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Host.Access.Authenticate(ctx, secret); problem(t, err).Code != api.CodeUnauthorized {
		t.Errorf("a revoked token answers %v", err)
	}
	if _, err := f.Host.FirstToken(ctx); err != nil {
		t.Fatal(err)
	}
	if again, err := os.ReadFile(path); err != nil || string(again) == string(text) {
		t.Errorf("the file still holds a revoked token: %v", err)
	}
}

func TestImageInUse(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	d := f.Create(api.CreateDesktop{Name: "one"})
	img, err := f.Host.Shelf.Get(ctx, "test")
	if err != nil || img.InUse != 1 {
		t.Errorf("image is %+v, %v", img, err)
	}
	err = f.Host.Shelf.Remove(ctx, "test")
	if e := problem(t, faulted(err)); e.Code != api.CodeConflict || !strings.Contains(e.Detail, d.ID) {
		t.Errorf("removal of an image in use answers %+v", e)
	}
	if err := f.Host.Delete(ctx, project, "one"); err != nil {
		t.Fatal(err)
	}
	if err := f.Host.Shelf.Remove(ctx, "test"); err != nil {
		t.Errorf("removal: %v", err)
	}
	_, err = f.Host.Create(ctx, project, api.CreateDesktop{Image: "test"}, "")
	if e := problem(t, faulted(err)); e.Code != api.CodeNotFound || e.Hint == "" {
		t.Errorf("create from an unknown image answers %+v", e)
	}
}

func TestCreateValidation(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	_, err := f.Host.Create(ctx, project, api.CreateDesktop{
		Image: "test", Keyboard: "de:nodeadkey", Labels: map[string]string{"bad key": "x", "k": "a\nb"}, Env: map[string]string{"1A": "x", "B": "a\x00"},
	}, "")
	e := problem(t, err)
	var places []string
	for _, fe := range e.Errors {
		places = append(places, fe.Location)
	}
	slices.Sort(places)
	want := []string{"body.env.1A", "body.env.B", "body.keyboard", "body.labels.bad key", "body.labels.k"}
	if diff := cmp.Diff(want, places); e.Code != api.CodeInvalid || diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

func TestLease(t *testing.T) {
	f := hosttest.New(t)
	ctx := patient(t)
	f.Create(api.CreateDesktop{Name: "one"})
	for epoch, want := range map[uint64]api.Code{0: "", 1: "", 2: api.CodeControlHeld} {
		_, _, leave, err := f.Host.Controls.Use(ctx, project, "one", control.Call{Holder: control.Holder{Name: "me", By: "token:t"}, Epoch: epoch})
		if err == nil {
			leave()
		}
		var got api.Code
		if err != nil {
			got = problem(t, err).Code
		}
		if got != want {
			t.Errorf("epoch %d answers %q, want %q", epoch, got, want)
		}
	}
}
