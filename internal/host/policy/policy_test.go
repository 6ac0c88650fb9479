package policy_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/policy"
	"github.com/deskfork/deskfork/pkg/api"
)

// fake is a host of one desktop.
type fake struct {
	start time.Time

	mu    sync.Mutex
	s     policy.Subject
	short bool
	log   []string
}

func (f *fake) Short() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.short
}

func (f *fake) Subjects() []policy.Subject {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []policy.Subject{f.s}
}

func (f *fake) say(what string, n policy.Notice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf("%s %s by %s at %s", what, n.Action, n.Reason, time.Since(f.start).Round(time.Second)))
}

func (f *fake) Expiring(_ string, n policy.Notice) { f.say("warn", n) }

func (f *fake) Act(_ context.Context, _ string, n policy.Notice) {
	f.say("do", n)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch n.Action {
	case api.IdleDelete:
		f.s.State = api.StateDeleting
	case api.IdlePause:
		f.s.State = api.StatePaused
	case api.IdleSuspend:
		f.s.State = api.StateSuspended
	}
}

func (f *fake) change(fn func(*policy.Subject)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fn(&f.s)
}

func TestKeeper(t *testing.T) {
	type at struct {
		after time.Duration // since the change before
		do    func(*policy.Subject)
	}
	touch := func(s *policy.Subject) { s.Last = time.Now() }
	tests := []struct {
		name    string
		policy  api.Policy
		changes []at
		want    []string
	}{
		{"no policy", api.Policy{}, nil, nil},
		{"time to live", api.Policy{TTLS: 600}, nil, []string{"warn delete by ttl at 9m0s", "do delete by ttl at 10m0s"}},
		{"idle", api.Policy{IdleS: 300}, nil, []string{"warn suspend by idle at 4m30s", "do suspend by idle at 5m0s"}},
		{"idle, to be paused", api.Policy{IdleS: 100, IdleAction: api.IdlePause}, nil, []string{"warn pause by idle at 1m30s", "do pause by idle at 1m40s"}},
		{"used in between", api.Policy{IdleS: 300}, []at{{280 * time.Second, touch}}, []string{
			"warn suspend by idle at 4m30s", "warn suspend by idle at 9m10s", "do suspend by idle at 9m40s",
		}},
		{"a stream", api.Policy{IdleS: 100}, []at{
			{10 * time.Second, func(s *policy.Subject) { s.Busy = true }},
			{1000 * time.Second, func(s *policy.Subject) { s.Busy = false; s.Last = time.Now() }},
		}, []string{"warn suspend by idle at 18m20s", "do suspend by idle at 18m30s"}},
		{"busy vCPUs", api.Policy{IdleS: 100, IdleCPU: 20}, []at{
			{10 * time.Second, func(s *policy.Subject) { s.CPU += 990 * time.Millisecond }}, // just below of 5 s
			{50 * time.Second, func(s *policy.Subject) { s.CPU += 1010 * time.Millisecond }},
		}, []string{"warn suspend by idle at 2m35s", "do suspend by idle at 2m45s"}},
		{"paused by hand", api.Policy{IdleS: 100}, []at{{time.Second, func(s *policy.Subject) { s.State = api.StatePaused }}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				f := &fake{start: now, s: policy.Subject{ID: "d1", State: api.StateReady, Policy: tt.policy, Last: now}}
				if tt.policy.TTLS > 0 {
					f.s.Expires = now.Add(time.Duration(tt.policy.TTLS) * time.Second)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var running sync.WaitGroup
				running.Go(func() { policy.New(f, time.Now).Run(ctx) })
				for _, c := range tt.changes {
					<-time.After(c.after + time.Millisecond)
					f.change(c.do)
				}
				running.Wait()
				if diff := cmp.Diff(tt.want, f.log); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestKeeperFailingAct: what did not work is tried again when its time has come
// again, not at every look.
func TestKeeperFailingAct(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &stubborn{fake{start: time.Now(), s: policy.Subject{ID: "d1", State: api.StateReady, Policy: api.Policy{IdleS: 60}, Last: time.Now()}}}
		ctx, cancel := context.WithTimeout(t.Context(), 130*time.Second)
		defer cancel()
		policy.New(f, time.Now).Run(ctx)
		if diff := cmp.Diff([]string{
			"warn suspend by idle at 50s", "do suspend by idle at 1m0s", "warn suspend by idle at 1m50s", "do suspend by idle at 2m0s",
		}, f.log); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

type stubborn struct{ fake }

func (f *stubborn) Act(_ context.Context, _ string, n policy.Notice) { f.say("do", n) }

// TestKeeperShortOfMemory: the policy's time is not waited for.
func TestKeeperShortOfMemory(t *testing.T) {
	for action, want := range map[api.IdleAction][]string{
		"":            {"warn suspend by memory at 1m0s", "do suspend by memory at 1m0s"},
		api.IdlePause: nil, // that frees none
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{start: time.Now(), s: policy.Subject{
				ID: "d1", State: api.StateReady, Policy: api.Policy{IdleS: 3600, IdleAction: action}, Last: time.Now().Add(20 * time.Second),
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			var running sync.WaitGroup
			running.Go(func() { policy.New(f, time.Now).Run(ctx) })
			<-time.After(58 * time.Second)
			f.mu.Lock()
			f.short = true
			f.mu.Unlock()
			running.Wait()
			if diff := cmp.Diff(want, f.log); diff != "" {
				t.Errorf("action %q (-want +got):\n%s", action, diff)
			}
		})
	}
}
