package control_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestTake: who may take the lease from whom.
func TestTake(t *testing.T) {
	for _, tc := range []struct {
		name    string
		holder  control.Holder
		who     control.Holder
		preempt bool
		ok      bool
	}{
		{"free", control.Holder{}, agent("a"), false, true},
		{"one's own", agent("a"), agent("a"), false, true},
		{"agent from agent", agent("a"), agent("b"), true, false},
		{"person from agent", agent("a"), person("p"), true, true},
		{"person from agent, policy says no", agent("a"), person("p"), false, false},
		{"person from person", person("p"), person("q"), true, false},
		{"agent from person", person("p"), agent("a"), true, false},
		{"admin from person", person("p"), admin("r"), false, true},
		{"same name under another authority", person("p"), control.Holder{Name: "p", By: "token:x", Kind: api.ControlPerson}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			l := control.Lease{Epoch: 7, Holder: tc.holder, Until: now.Add(time.Minute)}
			err := l.Take(tc.who, tc.preempt, time.Minute, now)
			if (err == nil) != tc.ok {
				t.Fatalf("answered %v", err)
			}
			if !tc.ok {
				e, _ := errors.AsType[*api.Error](err)
				if !isHeld(err) || e.Control == nil || e.Control.Holder != tc.holder.Name || e.Control.Epoch != 7 {
					t.Errorf("the refusal is %+v", e)
				}
			}
			if want := map[bool]uint64{true: 8, false: 7}[tc.ok && !tc.holder.Is(tc.who)]; l.Epoch != want {
				t.Errorf("epoch %d, want %d", l.Epoch, want)
			}
			if l.Mine(tc.who) != tc.ok {
				t.Errorf("the holder is %+v", l.Holder)
			}
		})
	}
}

// TestModel drives a lease with random calls and looks after each that nobody but
// the one holder passes, that epochs only grow, and that an old one can do nothing.
func TestModel(t *testing.T) {
	people := []control.Holder{agent("a"), agent("b"), person("p"), person("q"), admin("r")}
	for seed := range uint64(20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			now := time.Unix(1000, 0)
			l := control.Lease{Epoch: 1}
			for range 150 {
				who := people[r.IntN(len(people))]
				epoch := uint64(0)
				if r.IntN(3) == 0 {
					epoch = 1 + r.Uint64N(l.Epoch)
				}
				was := l
				step(r, &l, who, epoch, &now)
				judge(t, people, was, l, now)
				if epoch != 0 && epoch < was.Epoch {
					if err := l.Check(who, epoch); !isHeld(err) {
						t.Fatalf("a call of epoch %d passes in %d: %v", epoch, l.Epoch, err)
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

func step(r *rand.Rand, l *control.Lease, who control.Holder, epoch uint64, now *time.Time) {
	ttl := time.Duration(1+r.IntN(20)) * time.Second
	switch r.IntN(7) {
	case 0:
		_ = l.Take(who, r.IntN(2) == 0, ttl, *now)
	case 1:
		_, _ = l.Request(who, ttl, *now)
	case 2:
		_ = l.Give(who, epoch, "", *now)
	case 3:
		_ = l.Release(who, epoch)
	case 4:
		_ = l.Renew(who, epoch, ttl, *now)
	case 5:
		*now = now.Add(time.Duration(r.IntN(15)) * time.Second)
	case 6:
		l.Expire(*now)
	}
}

// judge compares a lease with what it was before one step.
func judge(t *testing.T, people []control.Holder, was, is control.Lease, now time.Time) {
	t.Helper()
	if is.Epoch < was.Epoch {
		t.Fatalf("epoch %d after %d", is.Epoch, was.Epoch)
	}
	if changed := !was.Holder.Is(is.Holder); changed != (is.Epoch != was.Epoch) {
		t.Fatalf("holder %q became %q, epoch %d became %d", was.Holder.Name, is.Holder.Name, was.Epoch, is.Epoch)
	}
	passes := 0
	for _, p := range people {
		if is.Check(p, is.Epoch) == nil {
			passes++
		}
		if err := is.Check(p, is.Epoch-1); is.Epoch > 1 && !isHeld(err) {
			t.Fatalf("the epoch before passes: %v", err)
		}
	}
	switch {
	case is.Held() && passes != 1:
		t.Fatalf("%d pass although %s holds the lease", passes, is.Holder.Name)
	case !is.Held() && passes != len(people):
		t.Fatalf("%d pass although nobody holds the lease", passes)
	}
	// Without an agent's lease nobody is pre-empted but by an admin.
	if was.Held() && is.Held() && !was.Holder.Is(is.Holder) && was.Holder.Kind == api.ControlPerson && is.Holder.Kind == api.ControlAgent && now.Before(was.Until) {
		if len(was.View(control.Holder{}).Asking) == 0 {
			t.Fatalf("agent %s has taken control from %s", is.Holder.Name, was.Holder.Name)
		}
	}
}
