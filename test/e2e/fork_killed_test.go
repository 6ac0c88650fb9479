//go:build integration

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// killed ends the daemon, or a hypervisor, at some instant of each verb. After
// the next start the desktop runs or says why not, there is no half child, and
// nothing is left of what was cut off.
func (a *apart) killed(t *testing.T, d desk) {
	t.Helper()
	verbs := []struct {
		name string
		do   func(ctx context.Context, d desk)
	}{
		{"fork", func(ctx context.Context, d desk) {
			_, _ = d.Fork(ctx, api.Fork{Count: 2}, client.Until(api.StageDrawn), client.Within(time.Minute))
		}},
		{"snapshot", func(ctx context.Context, d desk) { _, _ = d.Snapshot(ctx, "cut-off") }},
		{"suspend and resume", func(ctx context.Context, d desk) { _, _ = d.Suspend(ctx); _, _ = d.Resume(ctx) }},
		{"restore", func(ctx context.Context, d desk) { _, _ = d.Restore(ctx, "seed") }},
		{"create", func(ctx context.Context, _ desk) { _, _ = a.create(ctx) }},
	}
	rounds := 5
	if long(t) {
		rounds = 20
	}
	for i := range rounds {
		verb, machine := verbs[i%len(verbs)], i%4 == 3
		wait := time.Duration(rand.Int64N(int64(1500 * time.Millisecond)))
		what := fmt.Sprintf("%s, vmhost killed after %s", verb.name, wait)
		if machine {
			what = fmt.Sprintf("%s, a machine killed after %s", verb.name, wait)
		}
		t.Log(what)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); verb.do(ctx, desk{a.Client.Desktop(d.Ref())}) }()
		select {
		case <-time.After(wait):
		case <-t.Context().Done():
		}
		if machine {
			if pids := pidsOf(t, a.Run+"/"); len(pids) > 0 {
				kill(t, pids[rand.IntN(len(pids))])
			}
			<-ended
		}
		a.Kill()
		cancel()
		<-ended
		if err := a.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d = a.whole(t, desk{a.Client.Desktop(d.Ref())}, machine); t.Failed() {
			t.Fatalf("round %d: %s", i+1, what)
		}
	}
}

func kill(t *testing.T, pid string) {
	t.Helper()
	var n int
	if _, err := fmt.Sscan(pid, &n); err != nil {
		t.Fatal(err)
	}
	p, err := os.FindProcess(n)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Logf("kill %s: %v", pid, err) // it has ended by itself
	}
}

// whole waits until every desktop of the host has come to rest, demands that each
// of them answers or says why not, and that nothing else is there. It returns
// the one that all is about, or, where its machine was killed, another.
func (a *apart) whole(t *testing.T, d desk, killed bool) desk {
	t.Helper()
	for _, v := range a.settled(t) {
		k := desk{a.Client.Desktop(v.ID)}
		switch v.State {
		case api.StatePaused, api.StateSuspended:
			if _, err := k.Resume(t.Context()); err != nil {
				t.Errorf("resume what was %s: %v", v.State, err)
			}
			k.sh(t, "true")
		case api.StateReady:
			k.sh(t, "true")
		case api.StateFailed:
			if v.Failure == nil || v.Failure.Code == "" || (v.ID == d.Ref() && !killed) {
				t.Errorf("failed: %+v, %+v", v, v.Failure)
			}
		default:
			t.Errorf("%s is %s", v.ID, v.State)
		}
		if v.ID != d.Ref() || v.State == api.StateFailed {
			k.remove(t)
		}
	}
	if _, err := d.Get(t.Context()); is(err, api.CodeNotFound) && killed {
		d = a.clone(t)
	}
	if err := a.Client.Snapshots().Remove(t.Context(), "cut-off"); err != nil && !is(err, api.CodeNotFound) {
		t.Error(err)
	}
	now, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	a.only(t, now)
	return desk{a.Client.Desktop(now.ID)}
}

// settled lists the desktops when none of them is on its way any more.
func (a *apart) settled(t *testing.T) []api.Desktop {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		all, err := a.Client.Desktops().List(ctx, client.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		moving := func(v api.Desktop) bool { return v.State == api.StateStarting || v.State == api.StateDeleting }
		if !slices.ContainsFunc(all, moving) {
			return all
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("desktops do not come to rest: %+v", all)
		}
	}
}

// only demands that of machines the host has just that of one desktop, and of
// snapshots those that are listed or that it stands on.
func (a *apart) only(t *testing.T, v api.Desktop) {
	t.Helper()
	if pids, own := pidsOf(t, a.Run+"/"), pidsOf(t, v.Incarnation); len(own) != 1 || !slices.Equal(pids, own) {
		t.Errorf("processes %v, those of %s are %v", pids, v.ID, own)
	}
	for _, pattern := range []string{a.Data + "/desktops/*/*", a.Run + "/vm/[^.]*"} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) != 1 || filepath.Base(left[0]) != v.Incarnation {
			t.Errorf("of %s there are %v, want %s alone", pattern, left, v.Incarnation)
		}
	}
	snaps, err := a.Client.Snapshots().List(t.Context())
	if err != nil || len(snaps) != 1 || snaps[0].ID != a.seed.ID {
		t.Errorf("snapshots %+v, %v, want the seed alone", snaps, err)
	}
	a.useful(t, desk{a.Client.Desktop(v.ID)})
}
