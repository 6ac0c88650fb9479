package sandbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/vm"
)

func over(f *hosttest.Fixture) *sandbox.Sandbox {
	return sandbox.New(sandbox.Config{
		Host: f.Host, Project: hosttest.Project, Suspends: true,
		Machine: api.CreateDesktop{Image: "test", WorkspaceMiB: 64, Labels: map[string]string{"team": "a"}},
	})
}

func allocation(generation int64) session.Allocation {
	t := sessiontest.Tenure(generation)
	return session.Allocation{
		Tenure: t, Name: session.NewIntent(t).ID, Workspace: session.Binding{ID: "b", MountPath: "/"},
		Plan: session.Plan{Driver: session.Driver{Lane: session.AMAWorker, Process: session.Process{Command: "true"}}},
	}
}

func acquired(t *testing.T, s *sandbox.Sandbox, a session.Allocation) session.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// state is what Inspect says.
func state(t *testing.T, s *sandbox.Sandbox, l session.Lease) session.RuntimeState {
	t.Helper()
	st, err := s.Inspect(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestLeaseOfDesktop: the same intent gives the same machine, which its lease, as
// JSON, finds again in a new daemon; it holds no secret.
func TestLeaseOfDesktop(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	s, a := over(f), allocation(1)
	l := acquired(t, s, a)
	if again := acquired(t, s, a); !again.Same(l) {
		t.Errorf("a retry gave %+v, not %+v", again, l)
	}
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if m := f.Provider.Machines(); len(m) != 1 || strings.Contains(string(text), string(m[0].Spec.GuestConfig)) || strings.Contains(string(text), "dfk_") {
		t.Errorf("%d machines, lease %s", len(m), text)
	}
	f.Stop()
	f.Start()
	var back session.Lease
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	s = over(f)
	if !back.Same(l) || state(t, s, back) != session.StateRunning {
		t.Errorf("after a restart: %+v", back)
	}
	if err := s.Heartbeat(t.Context(), a.Tenure, back); err != nil {
		t.Error(err)
	}
	found, err := s.Allocated(t.Context(), session.NewIntent(a.Tenure))
	if err != nil || len(found) != 1 || !found[0].Same(l) {
		t.Errorf("by its intent: %+v, %v", found, err)
	}
	_, id, err := sandbox.Desktop(back)
	if err != nil {
		t.Fatal(err)
	}
	v, err := f.Host.Desktop(t.Context(), hosttest.Project, id)
	if err != nil || v.Labels["session"] != a.Tenure.Scope.Session || v.Labels["team"] != "a" {
		t.Errorf("desktop %+v, %v", v.Labels, err)
	}
	// A fork is its user's own, and no machine of the session.
	forks, err := f.Host.Fork(t.Context(), hosttest.Project, id, api.Fork{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.Allocated(t.Context(), session.NewIntent(a.Tenure)); err != nil || len(found) != 1 {
		t.Errorf("with a fork: %+v, %v", found, err)
	}
	if err := s.Reap(t.Context(), a.Tenure.Scope, back, session.ReasonLeaseLost); err != nil {
		t.Error(err)
	}
	if _, err := f.Host.Wait(t.Context(), hosttest.Project, forks[0].ID, api.StageDrawn); err != nil {
		t.Error(err)
	}
}

// TestHeartbeatOfDesktop: lost is what is gone, by whatever way.
func TestHeartbeatOfDesktop(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]func(f *hosttest.Fixture, id string) error{
		"machine killed": func(f *hosttest.Fixture, id string) error {
			f.Machine(id).End(&vm.ExitError{Status: "signal: killed"})
			return nil
		},
		"guest off": func(f *hosttest.Fixture, id string) error {
			f.Machine(id).End(vm.ErrGuestShutdown)
			return nil
		},
		"deleted": func(f *hosttest.Fixture, id string) error {
			return f.Host.Delete(context.Background(), hosttest.Project, id)
		},
		"suspended": func(f *hosttest.Fixture, id string) error {
			_, err := f.Host.Power.Suspend(context.Background(), hosttest.Project, id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := hosttest.New(t)
			s, a := over(f), allocation(1)
			l := acquired(t, s, a)
			_, id, err := sandbox.Desktop(l)
			if err != nil {
				t.Fatal(err)
			}
			if err := kill(f, id); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
				err := s.Heartbeat(t.Context(), a.Tenure, l)
				if errors.Is(err, session.ErrSandboxLost) {
					break
				}
				if err != nil || time.Now().After(deadline) {
					t.Fatalf("heartbeat: %v", err)
				}
			}
			if st := state(t, s, l); st != session.StateStopped {
				t.Errorf("state %s", st)
			}
		})
	}
}

// TestTerminateDesktop: again, and at the same time, for each reason.
func TestTerminateDesktop(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	s := over(f)
	for i, reason := range []session.Reason{session.ReasonCompleted, session.ReasonFailed, session.ReasonLeaseLost} {
		a := allocation(int64(i + 1))
		l := acquired(t, s, a)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := s.Terminate(t.Context(), a.Tenure, l, reason); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if err := s.Reap(t.Context(), a.Tenure.Scope, l, reason); err != nil {
			t.Error(err)
		}
		if n := len(f.Provider.Machines()); n != 0 {
			t.Errorf("%s left %d machines", reason, n)
		}
	}
}

// TestTerminateCanFail: what could not be ended can be tried again.
func TestTerminateCanFail(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	s, a := over(f), allocation(1)
	l := acquired(t, s, a)
	stuck := errors.New("it does not die")
	f.Provider.Machines()[0].OnDestroy(func() error { return stuck })
	if err := s.Terminate(t.Context(), a.Tenure, l, session.ReasonFailed); err == nil {
		t.Fatal("a machine that does not end was said to be ended")
	}
	f.Provider.Machines()[0].OnDestroy(nil)
	if err := s.Reap(t.Context(), a.Tenure.Scope, l, session.ReasonFailed); err != nil {
		t.Error(err)
	}
	if n := len(f.Provider.Machines()); n != 0 {
		t.Errorf("%d machines are left", n)
	}
}

// TestForeignLeaseOfDesktop: leases of others are refused, and their machines stay.
func TestForeignLeaseOfDesktop(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	s, a := over(f), allocation(1)
	l := acquired(t, s, a)
	foreign := l
	foreign.Provider = "e2b"
	other := a.Tenure.Scope
	other.Session = "another"
	for name, err := range map[string]error{
		"provider of heartbeat": s.Heartbeat(t.Context(), a.Tenure, foreign),
		"provider of terminate": s.Terminate(t.Context(), a.Tenure, foreign, session.ReasonFailed),
		"provider of reap":      s.Reap(t.Context(), a.Tenure.Scope, foreign, session.ReasonFailed),
		"session of reap":       s.Reap(t.Context(), other, l, session.ReasonFailed),
	} {
		if !errors.Is(err, session.ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Suspend(t.Context(), a.Tenure, foreign); !errors.Is(err, session.ErrForeign) {
		t.Errorf("suspend: %v", err)
	}
	if _, err := s.Inspect(t.Context(), foreign); !errors.Is(err, session.ErrForeign) {
		t.Errorf("inspect: %v", err)
	}
	if err := s.Reap(t.Context(), a.Tenure.Scope, session.Lease{Provider: sandbox.Provider, RuntimeID: "i"}, session.ReasonFailed); err == nil {
		t.Error("a lease that names no desktop was reaped")
	}
	if state(t, s, l) != session.StateRunning {
		t.Error("the machine is gone")
	}
}

// TestRetainedDesktop: going on from a suspended machine leaves it as it was, and
// an old lease ends neither it nor what goes on.
func TestRetainedDesktop(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	s, first, second := over(f), allocation(1), allocation(2)
	ran := acquired(t, s, first)
	kept, err := s.Suspend(t.Context(), first.Tenure, ran)
	if err != nil {
		t.Fatal(err)
	}
	if kept.Same(ran) || state(t, s, kept) != session.StateSuspended || state(t, s, ran) != session.StateStopped {
		t.Errorf("kept as %+v", kept)
	}
	if found, err := s.Allocated(t.Context(), session.NewIntent(first.Tenure)); err != nil || len(found) != 1 || !found[0].Same(kept) {
		t.Errorf("by its intent: %+v, %v", found, err)
	}
	second.Resume = &kept
	next := acquired(t, s, second)
	if next.Same(kept) || next.Same(ran) {
		t.Errorf("the new incarnation is %+v", next)
	}
	if err := s.Reap(t.Context(), first.Tenure.Scope, ran, session.ReasonLeaseLost); err != nil { // an orphan of the first generation
		t.Error(err)
	}
	if state(t, s, kept) != session.StateSuspended || state(t, s, next) != session.StateRunning {
		t.Error("an old orphan ended a machine of now")
	}
	if err := s.Terminate(t.Context(), second.Tenure, next, session.ReasonFailed); err != nil {
		t.Error(err)
	}
	third := allocation(3)
	third.Resume = &kept
	if again := acquired(t, s, third); state(t, s, kept) != session.StateSuspended || again.Same(next) {
		t.Error("a failed run took the machine with it")
	}
	if err := s.Reap(t.Context(), first.Tenure.Scope, kept, session.ReasonCompleted); err != nil {
		t.Error(err)
	}
	fourth := allocation(4)
	fourth.Resume = &kept
	if l, err := s.Acquire(t.Context(), fourth); err == nil {
		t.Errorf("a machine that is gone was gone on from: %+v", l)
	}
	if n := len(f.Provider.Machines()); n != 1 {
		t.Errorf("%d machines, want that of the third run", n)
	}
}

// TestAbortInsideAcquire: wherever the caller gives up, and whatever fails, nothing
// is left.
func TestAbortInsideAcquire(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	acquired(t, over(f), allocation(100)) // the image has its boot snapshot
	if err := over(f).Terminate(t.Context(), sessiontest.Tenure(100), mustLease(t, f, 100), session.ReasonCompleted); err != nil {
		t.Fatal(err)
	}
	n := int64(0)
	attempt := func(t *testing.T, change func(cancel context.CancelFunc, a *session.Allocation)) {
		t.Helper()
		n++
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		a := allocation(n)
		change(cancel, &a)
		l, err := over(f).Acquire(ctx, a)
		f.Provider.OnClone(nil)
		f.Provider.OnCloned(nil)
		if err == nil {
			t.Errorf("it gave %+v", l)
		}
		if m := f.Provider.Machines(); len(m) != 0 {
			t.Errorf("%d machines are left", len(m))
		}
		if found, err := over(f).Allocated(t.Context(), session.NewIntent(a.Tenure)); err != nil || len(found) != 0 {
			t.Errorf("left: %+v, %v", found, err)
		}
	}
	attempt(t, func(cancel context.CancelFunc, _ *session.Allocation) { cancel() })
	attempt(t, func(cancel context.CancelFunc, _ *session.Allocation) {
		f.Provider.OnClone(func(context.Context, vm.CloneSpec) error { cancel(); return nil })
	})
	attempt(t, func(cancel context.CancelFunc, _ *session.Allocation) {
		f.Provider.OnCloned(func(context.Context) { cancel() })
	})
	attempt(t, func(_ context.CancelFunc, _ *session.Allocation) {
		f.Provider.OnClone(func(context.Context, vm.CloneSpec) error { return errors.New("no room") })
	})
	attempt(t, func(_ context.CancelFunc, a *session.Allocation) { a.Plan.Driver.Process.Command = "no-such-program" })
	attempt(t, func(_ context.CancelFunc, a *session.Allocation) { a.Plan.Driver.Process.Command = "/no/such/program" })
}

func mustLease(t *testing.T, f *hosttest.Fixture, generation int64) session.Lease {
	t.Helper()
	found, err := over(f).Allocated(t.Context(), session.NewIntent(sessiontest.Tenure(generation)))
	if err != nil || len(found) != 1 {
		t.Fatalf("allocated: %+v, %v", found, err)
	}
	return found[0]
}

// TestImageOfSession: the image is what was asked for, to the digest.
func TestImageOfSession(t *testing.T) {
	t.Parallel()
	f := hosttest.New(t)
	c := sandbox.Config{Host: f.Host, Project: hosttest.Project, Machine: api.CreateDesktop{Image: "test", WorkspaceMiB: 64}, Digest: "sha256:" + strings.Repeat("0", 64)}
	if l, err := sandbox.New(c).Acquire(t.Context(), allocation(1)); err == nil {
		t.Errorf("another image gave %+v", l)
	}
	c.Digest = hosttest.Digest
	l := acquired(t, sandbox.New(c), allocation(2))
	_, id, err := sandbox.Desktop(l)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Host.Desktop(t.Context(), hosttest.Project, id); err != nil || v.ImageDigest != hosttest.Digest {
		t.Errorf("desktop of %s, %v", v.ImageDigest, err)
	}
	if caps, err := sandbox.New(c).Capabilities(t.Context(), session.Scope{}); err != nil || caps.SuspendResume || !caps.HardTerminate || slices.Contains(caps.RuntimeCheckpoints, session.CheckpointProcess) {
		t.Errorf("capabilities %+v, %v", caps, err)
	}
}

// TestMachineOfAnotherHost: a host that shares the stores neither ends it nor takes
// it for gone.
func TestMachineOfAnotherHost(t *testing.T) {
	t.Parallel()
	f, other := hosttest.New(t), hosttest.New(t)
	of := func(f *hosttest.Fixture, node string) *sandbox.Sandbox {
		return sandbox.New(sandbox.Config{Host: f.Host, Project: hosttest.Project, Machine: api.CreateDesktop{Image: "test", WorkspaceMiB: 64}, Node: node})
	}
	a := allocation(1)
	l := acquired(t, of(f, "one"), a)
	there := of(other, "two")
	if err := there.Reap(t.Context(), a.Tenure.Scope, l, session.ReasonLeaseLost); err == nil {
		t.Error("another host says that it has ended the machine")
	}
	if err := there.Heartbeat(t.Context(), a.Tenure, l); err == nil || errors.Is(err, session.ErrSandboxLost) {
		t.Errorf("another host says %v", err)
	}
	if err := of(f, "one").Reap(t.Context(), a.Tenure.Scope, l, session.ReasonLeaseLost); err != nil {
		t.Error(err)
	}
	if n := len(f.Provider.Machines()); n != 0 {
		t.Errorf("%d machines are left", n)
	}
}
