package control_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestTakeover: a person who takes control ends an agent's call at once, and what
// is held down is let go after that and before anything of the person.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.desk(t)
		var order []string
		var mu sync.Mutex
		say := func(what string) { mu.Lock(); order = append(order, what); mu.Unlock() }
		w.letGo = func() { say("released") }
		ctx, leave, err := d.Enter(t.Context(), desktopID, agent("a"), 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // a drag that takes a moment to stop
			<-ctx.Done()
			<-time.After(time.Second)
			say("drag stopped")
			leave()
		}()
		start := time.Now()
		got := do(t, d, person("p"), api.ChangeControl{Action: api.ControlTake})
		if !got.Mine || got.Epoch != 2 || got.Kind != api.ControlPerson {
			t.Errorf("control is %+v", got)
		}
		if _, leave, err := d.Enter(t.Context(), desktopID, person("p"), got.Epoch, 0); err == nil {
			say("person")
			leave()
		} else {
			t.Error(err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		if want := []string{"drag stopped", "released", "person"}; !slices.Equal(order, want) {
			t.Errorf("happened %v, want %v", order, want)
		}
		e, ok := errors.AsType[*api.Error](context.Cause(ctx))
		if !ok || e.Code != api.CodeControlHeld || e.Control.Holder != "p" {
			t.Errorf("the agent's call ends with %v", context.Cause(ctx))
		}
		if err := may(t, d, agent("a"), 0); !isHeld(err) {
			t.Errorf("the agent's next call: %v", err)
		}
		if err := may(t, d, agent("a"), 1); !isHeld(err) {
			t.Errorf("the agent's next call of its epoch: %v", err)
		}
	})
}

// TestHungCall: a call that does not stop keeps nobody from taking over for long.
func TestHungCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newWorld().desk(t)
		_, leave, err := d.Enter(t.Context(), desktopID, agent("a"), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
		start := time.Now()
		do(t, d, person("p"), api.ChangeControl{Action: api.ControlTake})
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// TestWait: an agent's call that may wait goes on when the person is done, one that
// may not, or not so long, is refused.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newWorld().desk(t)
		do(t, d, person("p"), api.ChangeControl{Action: api.ControlTake})
		time.AfterFunc(10*time.Second, func() {
			_, _ = d.Change(context.Background(), desktopID, person("p"), api.ChangeControl{Action: api.ControlRelease}, 0)
		})
		start := time.Now()
		if _, _, err := d.Enter(t.Context(), desktopID, agent("a"), 0, 3*time.Second); !isHeld(err) || time.Since(start) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if _, leave, err := d.Enter(t.Context(), desktopID, agent("a"), 0, time.Minute); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		} else {
			leave()
		}
		// One that names an epoch that is over has nothing to wait for.
		start = time.Now()
		if _, _, err := d.Enter(t.Context(), desktopID, agent("a"), 1, time.Minute); !isHeld(err) || time.Since(start) != 0 {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// TestHeartbeat: a lease lives as long as its holder is heard of, by a call, a
// renewal or a call that goes on, and not longer.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.desk(t)
		p := person("p")
		do(t, d, p, api.ChangeControl{Action: api.ControlTake, TTLS: 10})
		held := func() bool {
			v, err := d.Status(t.Context(), desktopID, p)
			if err != nil {
				t.Fatal(err)
			}
			return v.Mine
		}
		<-time.After(9 * time.Second)
		if err := may(t, d, p, 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(9 * time.Second)
		do(t, d, p, api.ChangeControl{Action: api.ControlRenew})
		<-time.After(9 * time.Second)
		_, leave, err := d.Enter(t.Context(), desktopID, p, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(25 * time.Second) // a long call
		leave()
		if !held() {
			t.Fatal("lost although its holder was heard of")
		}
		<-time.After(20 * time.Second)
		synctest.Wait()
		if held() {
			t.Error("held although nothing was heard")
		}
		events, released := w.seen()
		if want := []string{"control.taken", "control.lost"}; !slices.Equal(events, want) || released != 2 {
			t.Errorf("events %v, keys released %d times", events, released)
		}
		if err := may(t, d, agent("a"), 3); err != nil {
			t.Errorf("the epoch after: %v", err)
		}
	})
}

// TestGive: the lease goes to who asks for it, who hears of it by waiting.
func TestGive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.desk(t)
		do(t, d, person("p"), api.ChangeControl{Action: api.ControlTake})
		if _, err := d.Change(t.Context(), desktopID, person("p"), api.ChangeControl{Action: api.ControlGive}, 0); !errors.Is(err, &api.Error{Code: api.CodePrecondition}) {
			t.Errorf("give to nobody: %v", err)
		}
		got := make(chan error, 1)
		go func() {
			v, err := d.Change(t.Context(), desktopID, agent("a"), api.ChangeControl{Action: api.ControlRequest}, time.Minute)
			if err == nil && !v.Mine {
				err = errors.New("it is not its")
			}
			got <- err
		}()
		synctest.Wait()
		v, err := d.Status(t.Context(), desktopID, person("p"))
		if err != nil || len(v.Asking) != 1 || v.Asking[0].Holder != "a" {
			t.Fatalf("%+v, %v", v, err)
		}
		do(t, d, person("p"), api.ChangeControl{Action: api.ControlGive, To: "a"})
		if err := <-got; err != nil {
			t.Errorf("the request: %v", err)
		}
		if err := may(t, d, person("p"), 0); !isHeld(err) {
			t.Errorf("who gave it away: %v", err)
		}
		if events, _ := w.seen(); !slices.Equal(events, []string{"control.taken", "control.asked", "control.given"}) {
			t.Errorf("events %v", events)
		}
	})
}

// TestEpochGoesOn: over a restart of the host and another incarnation of the desktop
// the epoch grows, and nobody has control.
func TestEpochGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.desk(t)
		first := do(t, d, person("p"), api.ChangeControl{Action: api.ControlTake})
		again := w.desk(t) // the host was killed
		v, err := again.Status(t.Context(), desktopID, person("p"))
		if err != nil || v.Held || v.Epoch <= first.Epoch {
			t.Fatalf("after a restart %+v, %v", v, err)
		}
		do(t, again, person("p"), api.ChangeControl{Action: api.ControlTake})
		w.set(func(d *api.Desktop) { d.Incarnation = "i2" })
		after, err := again.Status(t.Context(), desktopID, person("p"))
		if err != nil || after.Held || after.Epoch <= v.Epoch+1 {
			t.Errorf("of the next incarnation %+v, %v", after, err)
		}
		w.set(func(d *api.Desktop) { d.Incarnation = "i3" })
		third := w.desk(t) // while nobody looked
		if v, err := third.Status(t.Context(), desktopID, person("p")); err != nil || v.Epoch <= after.Epoch {
			t.Errorf("of the third %+v, %v", v, err)
		}
		// Another desktop, such as a child, begins anew.
		w.set(func(d *api.Desktop) { d.ID = "d2" })
		w.rows = nil
		if v, err := third.Status(t.Context(), "d2", person("p")); err != nil || v.Held || v.Epoch != 1 {
			t.Errorf("of a child %+v, %v", v, err)
		}
	})
}

// TestNotWritten: what cannot be written down is not taken.
func TestNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.desk(t)
		w.broken = errors.New("disk full")
		if _, err := d.Change(t.Context(), desktopID, person("p"), api.ChangeControl{Action: api.ControlTake}, 0); !errors.Is(err, w.broken) {
			t.Errorf("take: %v", err)
		}
		if err := may(t, d, agent("a"), 1); err != nil {
			t.Errorf("the agent afterwards: %v", err)
		}
	})
}

// TestEnds: a revoked authority and a deleted desktop end what was held and begun.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.desk(t)
		do(t, d, person("p"), api.ChangeControl{Action: api.ControlTake})
		ctx, leave, err := d.Enter(t.Context(), desktopID, person("p"), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		d.Revoke("ticket:p")
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the call goes on")
		}
		leave()
		ctx, leave, err = d.Enter(t.Context(), desktopID, agent("a"), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		d.Forget(desktopID)
		if ctx.Err() == nil {
			t.Error("the call to a deleted desktop goes on")
		}
		leave()
	})
}

// TestExec: programs run whoever has control, unless the policy refuses them while a
// person has.
func TestExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.desk(t)
		do(t, d, person("p"), api.ChangeControl{Action: api.ControlTake})
		if err := d.MayExec(t.Context(), desktopID, agent("a")); err != nil {
			t.Error(err)
		}
		w.set(func(d *api.Desktop) { d.ControlPolicy.Exec = "refuse" })
		if err := d.MayExec(t.Context(), desktopID, agent("a")); !isHeld(err) {
			t.Errorf("answered %v", err)
		}
		if err := d.MayExec(t.Context(), desktopID, person("p")); err != nil {
			t.Errorf("the holder's own: %v", err)
		}
		do(t, d, person("p"), api.ChangeControl{Action: api.ControlRelease})
		if err := d.MayExec(t.Context(), desktopID, agent("a")); err != nil {
			t.Error(err)
		}
	})
}

// TestRace: whoever calls and takes at once, no call of one holder ever overlaps one
// of another.
func TestRace(t *testing.T) {
	d := newWorld().desk(t)
	var inside atomic.Pointer[string]
	var busy atomic.Int64
	var wait sync.WaitGroup
	for _, who := range []control.Holder{person("p"), person("q"), admin("r"), admin("s")} {
		wait.Go(func() {
			for range 200 {
				got, err := d.Change(t.Context(), desktopID, who, api.ChangeControl{Action: api.ControlTake}, 0)
				if err != nil {
					continue
				}
				_, leave, err := d.Enter(t.Context(), desktopID, who, got.Epoch, 0)
				if err != nil {
					continue
				}
				if busy.Add(1) > 1 && *inside.Load() != who.Name {
					t.Errorf("%s is inside with %s", who.Name, *inside.Load())
				}
				inside.Store(&who.Name)
				busy.Add(-1)
				leave()
				_, _ = d.Change(t.Context(), desktopID, who, api.ChangeControl{Action: api.ControlRelease}, 0)
			}
		})
	}
	wait.Wait()
}

// TestUse: a call that waited while its desktop got another machine is not made.
func TestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		d := w.desk(t)
		by := control.Call{Holder: agent("a"), Wait: time.Minute}
		_, l, leave, err := d.Use(t.Context(), "p", "one", by)
		if err != nil || l != w.live {
			t.Fatal(err)
		}
		leave()
		do(t, d, person("p"), api.ChangeControl{Action: api.ControlTake})
		time.AfterFunc(time.Second, func() {
			w.set(func(*api.Desktop) { w.live = &live.Desktop{Input: input{w}} })
			_, _ = d.Change(context.Background(), desktopID, person("p"), api.ChangeControl{Action: api.ControlRelease}, 0)
		})
		if _, _, _, err := d.Use(t.Context(), "p", "one", by); !errors.Is(err, &api.Error{Code: api.CodeGuestUnavail}) {
			t.Errorf("answered %v", err)
		}
	})
}
