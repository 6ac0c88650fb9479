//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/guest"
)

// TestRestedClock: what has stood still for a while, in a snapshot or suspended,
// lives now when it goes on.
func TestRestedClock(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	dir := d.folder(t)
	before := d.get(t, guest.GenerationPath)
	snap := d.keep(t)
	if _, err := d.Suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	rest := 10 * time.Second
	if long(t) {
		rest = time.Minute
	}
	select {
	case <-time.After(rest):
	case <-t.Context().Done():
	}
	if _, err := d.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	made := clone(t, snap.ID)
	generations := []string{before}
	for who, k := range map[string]desk{"resumed": d, "clone": made} {
		k.clock(t, who)
		k.trusts(t, dir, who)
		generations = append(generations, k.get(t, guest.GenerationPath))
	}
	slices.Sort(generations)
	if len(slices.Compact(generations)) != 3 {
		t.Errorf("generations: %q", generations)
	}
}

// TestChildOutlivesAll: a child does not need the desktops, snapshots and clones
// that it came from, and the image that all stand on stays.
func TestChildOutlivesAll(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 512}, api.StageDrawn)
	files := "/workspace/kept ~/kept"
	d.sh(t, "for f in "+files+"; do head -c 16M /dev/urandom > $f; done; sync")
	sums := d.sh(t, "sha256sum "+files)
	s := d.counting(t)
	snap := d.keep(t)
	made := clone(t, snap.ID)
	kid := made.fork(t, api.Fork{})
	d.gone(t, host)
	if err := host.Client.Snapshots().Remove(t.Context(), snap.ID); err != nil {
		t.Fatal(err)
	}
	made.gone(t, host)
	code(t, host.Client.Images().Delete(t.Context(), kid.Info.ImageDigest), api.CodeConflict)
	kid.asRoot(t, "echo 3 > /proc/sys/vm/drop_caches")
	if got := kid.sh(t, "sha256sum "+files); got != sums {
		t.Errorf("the files are %s, were %s", got, sums)
	}
	s.count(t, kid, "child")
	// It can do all that others can.
	if _, err := kid.Suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := kid.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	kid.asRoot(t, "echo 3 > /proc/sys/vm/drop_caches")
	if got := kid.sh(t, "sha256sum "+files); got != sums {
		t.Errorf("after a suspension the files are %s, were %s", got, sums)
	}
	s.count(t, kid, "child")
}

// TestPolicies: a desktop's time ends, an idle one rests, and each is told before.
func TestPolicies(t *testing.T) {
	beside(t)
	for _, tt := range []struct {
		name   string
		policy api.Policy
		reason string
		after  func(t *testing.T, d desk)
	}{
		{"ttl", api.Policy{TTLS: 15}, "ttl", func(t *testing.T, d desk) {
			t.Helper()
			d.until(t, time.Minute, "its end", func(ctx context.Context) error {
				if _, err := d.Get(ctx); !is(err, api.CodeNotFound) {
					return fmt.Errorf("it is there: %w", err)
				}
				return nil
			})
		}},
		{"suspend", api.Policy{IdleS: 12, IdleCPU: 90}, "idle", func(t *testing.T, d desk) {
			t.Helper()
			d.comesTo(t, api.StateSuspended)
			_, err := d.Exec(t.Context(), "true")
			code(t, err, api.CodePrecondition)
			if _, err := d.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.sh(t, "true")
		}},
		{"pause", api.Policy{IdleS: 12, IdleCPU: 90, IdleAction: api.IdlePause}, "idle", func(t *testing.T, d desk) {
			t.Helper()
			d.comesTo(t, api.StatePaused)
			d.sh(t, "true")
			d.clock(t, "rested")
			if now, err := d.Get(t.Context()); err != nil || now.State != api.StateReady {
				t.Errorf("after an exec it is %s, %v", now.State, err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
			if tt.policy.TTLS > 0 { // from its creation on
				tt.policy.TTLS += int(time.Since(d.Info.Created).Seconds())
			}
			if _, err := d.SetPolicy(t.Context(), tt.policy); err != nil {
				t.Fatal(err)
			}
			d.warned(t, tt.reason)
			if now, err := d.Get(t.Context()); err != nil || now.State != api.StateReady {
				t.Errorf("when it was told it was %s, %v", now.State, err)
			}
			tt.after(t, d)
		})
	}
}

func (d desk) comesTo(t *testing.T, state api.DesktopState) {
	t.Helper()
	d.until(t, time.Minute, string(state), func(ctx context.Context) error {
		now, err := d.Get(ctx)
		if err == nil && now.State != state {
			err = fmt.Errorf("it is %s", now.State)
		}
		return err
	})
}

// warned waits for the event that comes before a policy acts.
func (d desk) warned(t *testing.T, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := errors.New("no event")
	var event api.Event
	for event, err = range host.Client.Events(ctx, client.EventOptions{Desktop: d.Info.ID, After: 1}) {
		if err != nil {
			break
		}
		if event.Type == "desktop.expiring" {
			if event.Data["reason"] != reason {
				t.Errorf("event %+v, want reason %s", event, reason)
			}
			return
		}
	}
	t.Fatalf("nobody was told: %v", err)
}

// TestGuestdEndsInAFork: a guestd that crashes in a clone, or in the clone of a
// clone, comes back and knows the token of the machine that it is in now.
func TestGuestdEndsInAFork(t *testing.T) {
	beside(t)
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	for who, k := range map[string]desk{"clone": d, "child": d.fork(t, api.Fork{})} {
		before := k.sh(t, "pgrep -ox guestd")
		if _, err := k.Execs().Start(t.Context(), api.Exec{User: "root", Shell: "sleep 1; kill -9 " + before}); err != nil {
			t.Fatal(err)
		}
		k.until(t, time.Minute, "guestd of the "+who+" again", func(ctx context.Context) error {
			res, err := k.Execs().Run(ctx, api.Exec{Shell: "pgrep -ox guestd", TimeoutMS: 10_000})
			if err == nil && string(res.Stdout) == before {
				err = errors.New("it has not ended yet")
			}
			return err
		})
	}
}
