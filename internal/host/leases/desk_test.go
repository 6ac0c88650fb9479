package leases_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
)

const project = "p"

// bench is a desk on machines in memory, with a clock of its own.
type bench struct {
	*leases.Desk

	t     *testing.T
	world *world.World
	cfg   leases.Config

	mu  sync.Mutex
	now time.Time
}

func newBench(t *testing.T) *bench {
	t.Helper()
	book, err := leases.OpenBook(t.Context(), filepath.Join(t.TempDir(), "sandboxes.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := book.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &bench{t: t, world: world.New(sessiontest.NewMemory().Stores()), now: time.UnixMilli(1_700_000_000_000)}
	b.cfg = leases.Config{
		Provider: world.Provider, Book: book, Now: b.time,
		Machines: func(_ context.Context, _ string, want leases.Spec) (leases.Machines, error) {
			if want.Image == "none" {
				return nil, api.Errorf(api.CodeNotFound, "no such image")
			}
			return b.world.Sandbox(), nil
		},
	}
	b.restart()
	return b
}

// restart is another process on the same database.
func (b *bench) restart() { b.Desk = leases.New(b.cfg) }

func (b *bench) time() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) pass(later time.Duration) error {
	b.mu.Lock()
	b.now = b.now.Add(later)
	b.mu.Unlock()
	return b.Pass(b.t.Context())
}

func request(generation int64) leases.Request {
	return leases.Request{
		Tenure:   session.Tenure{Scope: sessiontest.Scope("w-1"), Owner: "o", Generation: generation},
		Strategy: session.Ephemeral, TTL: 90 * time.Second,
	}
}

func (b *bench) create(req leases.Request) leases.View {
	b.t.Helper()
	v, err := b.Create(b.t.Context(), project, req)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *bench) machines(want ...string) {
	b.t.Helper()
	var got []string
	for _, l := range b.world.Machines() {
		got = append(got, l.RuntimeID)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("machines %v, want %v", got, want)
	}
}

func coded(t *testing.T, err error, want api.Code) *api.Error {
	t.Helper()
	e, ok := errors.AsType[*api.Error](err)
	if !ok || e.Code != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	return e
}

func wantCode(t *testing.T, err error, want api.Code) {
	t.Helper()
	_ = coded(t, err, want)
}

func anyone() leases.Caller { return leases.Caller{Project: project} }

func under(generation int64) leases.Caller {
	return leases.Caller{Project: project, Generation: generation}
}

func TestCreateSandbox(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		wg.Go(func() {
			v, err := b.Create(t.Context(), project, request(2))
			if err != nil {
				t.Error(err)
			}
			ids[i] = v.Lease.RuntimeID
		})
	}
	wg.Wait()
	b.machines(ids[0])
	b.restart()
	if again := b.create(request(2)); again.Lease.RuntimeID != ids[0] || again.State != session.StateRunning {
		t.Errorf("again it is %+v", again)
	}
	other := request(2)
	other.Spec.Shape = "large"
	_, err := b.Create(t.Context(), project, other)
	wantCode(t, err, api.CodeConflict)
	_, err = b.Create(t.Context(), project, request(1))
	if e := coded(t, err, api.CodeStale); e.Generation != 2 {
		t.Errorf("the newest is %d", e.Generation)
	}
	bad := request(3)
	bad.Spec.Image = "none"
	_, err = b.Create(t.Context(), project, bad)
	wantCode(t, err, api.CodeNotFound)
	if _, err := b.Renew(t.Context(), under(2), ids[0], time.Minute); err != nil {
		t.Errorf("a request for no image has moved the fence: %v", err)
	}

	next := b.create(request(3))
	_, err = b.Renew(t.Context(), anyone(), ids[0], time.Minute)
	wantCode(t, err, api.CodeStale)
	_, err = b.Use(t.Context(), under(2), ids[0])
	wantCode(t, err, api.CodeStale)
	_, err = b.Renew(t.Context(), under(2), next.Lease.RuntimeID, time.Minute)
	wantCode(t, err, api.CodeStale)
	if err := b.pass(0); err != nil {
		t.Fatal(err)
	}
	b.machines(next.Lease.RuntimeID) // the stale one was ended
}

func TestCreateThatFails(t *testing.T) {
	b := newBench(t)
	boom := errors.New("boom")
	b.world.Before("sandbox.acquire", world.Fail(boom))
	if _, err := b.Create(t.Context(), project, request(1)); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	// Who asked goes away while the machine comes up; it comes all the same.
	ctx, leave := context.WithCancel(t.Context())
	b.world.Before("sandbox.acquire", func(context.Context, int) error { leave(); return nil })
	if _, err := b.Create(ctx, project, request(1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.machines()
	b.world.Before("sandbox.acquire", nil)
	b.machines(b.create(request(1)).Lease.RuntimeID)
}

func TestLeaseLapses(t *testing.T) {
	b := newBench(t)
	one := b.create(request(1)).Lease.RuntimeID
	if err := b.pass(89 * time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Renew(t.Context(), under(1), one, 90*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := b.pass(89 * time.Second); err != nil {
		t.Fatal(err)
	}
	b.machines(one)
	b.mu.Lock()
	b.now = b.now.Add(2 * time.Second)
	b.mu.Unlock()
	_, err := b.Renew(t.Context(), under(1), one, 90*time.Second)
	wantCode(t, err, api.CodePrecondition)
	b.world.Before("sandbox.reap", world.Fail(errors.New("stuck")))
	if b.pass(0) == nil {
		t.Error("a failed ending is no error")
	}
	b.machines(one)
	b.world.Before("sandbox.reap", nil)
	b.restart()
	if err := b.pass(4 * time.Second); err != nil {
		t.Error(err)
	}
	b.machines(one) // not yet due again
	if err := b.pass(2 * time.Second); err != nil {
		t.Error(err)
	}
	b.machines()
	if _, err := b.Get(t.Context(), project, one); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("a lapsed one is %v", err)
	}
	_, err = b.Create(t.Context(), project, request(1))
	wantCode(t, err, api.CodePrecondition)
	if err := b.pass(100 * 24 * time.Hour); err != nil {
		t.Error(err)
	}
	b.create(request(1)) // forgotten
}

// TestCrashWithinCreate: a process that stands still within a create loses its machine
// to another one, and the machine that it gets later ends too.
func TestCrashWithinCreate(t *testing.T) {
	b := newBench(t)
	made, goOn := make(chan struct{}), make(chan struct{})
	b.world.After("sandbox.acquire", func(_ context.Context, n int) error {
		if n == 1 {
			close(made)
			<-goOn
		}
		return nil
	})
	var frozen sync.WaitGroup
	old := b.Desk
	frozen.Go(func() {
		if _, err := old.Create(t.Context(), project, request(1)); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("the late create says %v", err)
		}
	})
	<-made
	b.restart()
	if err := b.pass(time.Minute); err != nil {
		t.Fatal(err)
	}
	if len(b.world.Machines()) != 1 {
		t.Error("ended before its time")
	}
	if err := b.pass(time.Minute); err != nil {
		t.Fatal(err)
	}
	b.machines()
	close(goOn)
	frozen.Wait()
	b.machines()
}
