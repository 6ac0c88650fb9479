package leases_test

import (
	"errors"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
)

func TestSuspendAndGoOn(t *testing.T) {
	b := newBench(t)
	suspend := func(id string, generation int64) string {
		t.Helper()
		v, err := b.Suspend(t.Context(), under(generation), id)
		if err != nil {
			t.Fatal(err)
		}
		again, err := b.Suspend(t.Context(), under(generation), id)
		if err != nil || again.Lease.RuntimeID != v.Lease.RuntimeID {
			t.Errorf("again it is %+v, %v", again, err)
		}
		return v.Lease.RuntimeID
	}
	one := b.create(request(1)).Lease.RuntimeID
	kept := suspend(one, 1)
	if err := b.pass(24 * 365 * time.Hour); err != nil {
		t.Fatal(err)
	}
	b.machines(kept) // it has no lease that could run out
	if err := b.End(t.Context(), anyone(), one, session.ReasonFailed); err != nil {
		t.Error(err)
	}
	b.machines(kept)
	if v, err := b.Get(t.Context(), project, kept); err != nil || v.State != session.StateSuspended || !v.Expires.IsZero() {
		t.Errorf("it is %+v, %v", v, err)
	}
	_, err := b.Renew(t.Context(), anyone(), kept, time.Minute)
	wantCode(t, err, api.CodePrecondition)

	foreign := request(1)
	foreign.Tenure.Scope.Session, foreign.Resume = "s-2", kept
	if _, err := b.Create(t.Context(), project, foreign); !errors.Is(err, session.ErrForeign) {
		t.Errorf("another session's: %v", err)
	}
	none := request(2)
	none.Resume = "never-was"
	_, err = b.Create(t.Context(), project, none)
	wantCode(t, err, api.CodeNotFound)

	// Each generation goes on from the one before; what that was made from is not
	// needed any more once its own suspended machine is gone on from.
	second := request(2)
	second.Resume = one // is known by what it was, too
	next := suspend(b.create(second).Lease.RuntimeID, 2)
	b.machines(kept, next)
	third := request(3)
	third.Resume = next
	last := b.create(third).Lease.RuntimeID
	if err := b.pass(0); err != nil {
		t.Fatal(err)
	}
	b.machines(next, last)
}

func TestEndSandbox(t *testing.T) {
	b := newBench(t)
	one := b.create(request(3)).Lease.RuntimeID
	wantCode(t, b.End(t.Context(), under(2), one, session.ReasonLeaseLost), api.CodeStale)
	stuck := errors.New("stuck")
	b.world.Before("sandbox.terminate", world.Fail(stuck))
	if err := b.End(t.Context(), under(3), one, session.ReasonCompleted); !errors.Is(err, stuck) {
		t.Errorf("a failed end says %v", err)
	}
	_, err := b.Use(t.Context(), under(3), one)
	wantCode(t, err, api.CodePrecondition)
	b.world.Before("sandbox.terminate", nil)
	for range 3 {
		if err := b.End(t.Context(), under(3), one, session.ReasonCompleted); err != nil {
			t.Error(err)
		}
	}
	b.machines()

	// One that nobody asks about again is ended all the same.
	two := b.create(request(4)).Lease.RuntimeID
	b.world.Before("sandbox.terminate", world.Fail(stuck))
	if err := b.End(t.Context(), anyone(), two, session.ReasonFailed); !errors.Is(err, stuck) {
		t.Errorf("a failed end says %v", err)
	}
	b.restart()
	if err := b.pass(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	b.machines()
	if err := b.End(t.Context(), anyone(), "never-was", session.ReasonFailed); err != nil {
		t.Error(err)
	}
}

func TestReapSandbox(t *testing.T) {
	b := newBench(t)
	one := b.create(request(1)).Lease
	reap := func(by leases.Caller, scope session.Scope, l session.Lease) error {
		return b.Reap(t.Context(), by, scope, l, session.ReasonLeaseLost)
	}
	mine := sessiontest.Scope("w-1")
	foreign := one
	foreign.Provider = "other"
	if err := reap(anyone(), mine, foreign); !errors.Is(err, session.ErrForeign) {
		t.Errorf("another provider's: %v", err)
	}
	if err := reap(anyone(), sessiontest.Scope("w-2"), one); !errors.Is(err, session.ErrForeign) {
		t.Errorf("another scope's: %v", err)
	}
	if err := reap(leases.Caller{Project: "q"}, mine, one); err != nil {
		t.Errorf("what this project does not know is gone: %v", err)
	}
	b.machines(one.RuntimeID)

	// An old incarnation's leaves the one that went on from it alone.
	kept, err := b.Suspend(t.Context(), under(1), one.RuntimeID)
	if err != nil {
		t.Fatal(err)
	}
	second := request(2)
	second.Resume = kept.Lease.RuntimeID
	next := b.create(second).Lease
	b.restart()
	for range 2 {
		if err := reap(anyone(), mine, one); err != nil {
			t.Error(err)
		}
	}
	b.machines(kept.Lease.RuntimeID, next.RuntimeID)
	for range 2 {
		if err := reap(anyone(), mine, next); err != nil {
			t.Error(err)
		}
	}
	b.machines(kept.Lease.RuntimeID)
}

func TestLostSandbox(t *testing.T) {
	b := newBench(t)
	one := b.create(request(1)).Lease.RuntimeID
	b.world.Before("sandbox.heartbeat", world.Fail(errors.New("no answer")))
	if _, err := b.Renew(t.Context(), under(1), one, time.Minute); err == nil || errors.Is(err, session.ErrSandboxLost) {
		t.Errorf("not known is not lost: %v", err)
	}
	b.world.Before("sandbox.heartbeat", world.Fail(session.ErrSandboxLost))
	if _, err := b.Renew(t.Context(), under(1), one, time.Minute); !errors.Is(err, session.ErrSandboxLost) {
		t.Errorf("lost is %v", err)
	}
	if err := b.pass(0); err != nil {
		t.Fatal(err)
	}
	b.machines() // what was left of it
}
