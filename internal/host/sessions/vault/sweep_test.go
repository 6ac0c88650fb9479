package vault_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/deskfork/deskfork/internal/host/sessions/vault"
	"github.com/deskfork/deskfork/pkg/blob"
	"github.com/deskfork/deskfork/pkg/blob/blobtest"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/sessiontest"
	"github.com/deskfork/deskfork/pkg/workspace"
)

// dying is a store whose host dies at one call, which may have had its effect.
func dying(below blob.Store, at int, effect bool) (workspace.Objects, *atomic.Bool) {
	var dead atomic.Bool
	return blobtest.NewFaulty(below, func(c blobtest.Call) blobtest.Fault {
		was := dead.Load()
		if c.N >= at {
			dead.Store(true)
		}
		return blobtest.Fault{Fatal: was || dead.Load() && !effect, Lost: c.N == at && effect}
	}), &dead
}

// TestKilledWhileWriting: at each call of the store. Nothing is left once a day has
// gone, and what the session names stays.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	key, data := newKey(t), stream(5*partBytes)
	for at, alive := 1, false; !alive; at++ {
		for _, effect := range []bool{false, true} {
			below := &blobtest.Memory{}
			named := written(t, open(t, below, key), entry(1), data)
			before := len(keys(t, below))
			store, dead := dying(below, at, effect)
			_, err := open(t, store, key).Write(t.Context(), entry(2), exports(data))
			if alive = !dead.Load(); alive == (err != nil) {
				t.Fatalf("killed at call %d: %v", at, err)
			}
			v := open(t, below, key)
			if r, err := v.Tidy(t.Context(), publishes(naming(named))); err != nil || r.Removed != 0 {
				t.Errorf("call %d, at once: %+v, %v", at, r, err)
			}
			v.Now = later
			if _, err := v.Tidy(t.Context(), publishes(naming(named))); err != nil || len(keys(t, below)) != before {
				t.Errorf("call %d, later: %v, left %q", at, err, keys(t, below))
			}
			if got, err := read(t, v, entry(1), named); err != nil || !bytes.Equal(got, data) {
				t.Errorf("call %d: the one that is named: %v", at, err)
			}
		}
	}
}

// TestKilledWhileSweeping: at each call; the next sweeps take the rest.
func TestKilledWhileSweeping(t *testing.T) {
	t.Parallel()
	key, data := newKey(t), stream(5*partBytes)
	tenure := sessiontest.Tenure(2)
	for at, alive := 1, false; !alive; at++ {
		for _, effect := range []bool{false, true} {
			below := &blobtest.Memory{}
			old, named := written(t, open(t, below, key), entry(1), data), written(t, open(t, below, key), entry(2), data)
			store, dead := dying(below, at, effect)
			err := open(t, store, key).Sweep(t.Context(), tenure, named)
			if alive = !dead.Load(); alive == (err != nil) {
				t.Fatalf("killed at call %d: %v", at, err)
			}
			if got, err := read(t, open(t, below, key), entry(1), old); err == nil && !bytes.Equal(got, data) {
				t.Errorf("call %d: half a checkpoint was read", at)
			}
			v := open(t, below, key)
			if err := v.Sweep(t.Context(), tenure, named); err != nil {
				t.Error(err)
			}
			v.Now = later
			_, err = v.Tidy(t.Context(), publishes(naming(named)))
			if left := keys(t, below); err != nil || slices.ContainsFunc(left, func(k string) bool { return strings.Contains(k, "s1") }) {
				t.Errorf("call %d: %v, left %q", at, err, left)
			}
			if got, err := read(t, v, entry(2), named); err != nil || !bytes.Equal(got, data) {
				t.Errorf("call %d: the one that is named: %v", at, err)
			}
		}
	}
}

// TestSweepOfSession: up to a generation, of one session, but what is named.
func TestSweepOfSession(t *testing.T) {
	t.Parallel()
	below, key, data := &blobtest.Memory{}, newKey(t), stream(100)
	v := open(t, below, key)
	refs := map[int64]vault.Ref{}
	for g := range int64(4) {
		refs[g+1] = written(t, v, entry(g+1), data)
	}
	other := entry(1)
	other.ID, other.Scope.Session = "sother", "another"
	others := written(t, v, other, data)
	if err := v.Sweep(t.Context(), sessiontest.Tenure(3), refs[2]); err != nil {
		t.Fatal(err)
	}
	for g, want := range map[int64]bool{1: false, 2: true, 3: false, 4: true} {
		if _, err := read(t, v, entry(g), refs[g]); (err == nil) != want {
			t.Errorf("generation %d: %v", g, err)
		}
	}
	if _, err := read(t, v, other, others); err != nil {
		t.Errorf("another session's: %v", err)
	}
	if n := len(keys(t, below)); n != 3*3 {
		t.Errorf("left %q", keys(t, below))
	}
}

// TestTidyLeavesOthersAlone: what a session of an unknown database or with another
// key has stored, and what is young.
func TestTidyLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	below, key, data := &blobtest.Memory{}, newKey(t), stream(100)
	v := open(t, below, key)
	written(t, v, entry(1), data)
	foreign := entry(1)
	foreign.ID = "sforeign"
	written(t, open(t, below, newKey(t)), foreign, data)
	before := len(keys(t, below))
	tidy := func(p *session.Publication, removed, unknown int) {
		t.Helper()
		r, err := v.Tidy(t.Context(), publishes(p))
		if want := (vault.Report{Removed: removed, Unknown: unknown}); err != nil || r != want || len(keys(t, below)) != before-3*removed {
			t.Errorf("%+v, want %+v; %v, left %q", r, want, err, keys(t, below))
		}
	}
	tidy(&session.Publication{}, 0, 0) // young
	v.Now = later
	tidy(nil, 0, 2)
	tidy(&session.Publication{}, 1, 1)
	lost := publishes(nil)
	lost.All = func(context.Context) ([]session.Publication, error) { return nil, errors.New("no database") }
	if _, err := v.Tidy(t.Context(), lost); err == nil {
		t.Error("tidied without knowing what is named")
	}
}
