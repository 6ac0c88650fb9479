package vmtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/deskfork/deskfork/pkg/vm"
)

// snapshotCases are of sealing, cloning and what goes with it.
func snapshotCases() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"seal and clone many":   sealAndCloneMany,
		"seal paused":           sealPaused,
		"pause":                 pauseIsIdempotent,
		"fork of a fork":        forkOfFork,
		"parent destroyed":      parentDestroyed,
		"snapshot removed":      snapshotRemoved,
		"kept over a restart":   keptOverRestart,
		"prepare and discard":   prepareAndDiscard,
		"refused clones":        refusedClones,
		"damaged":               damaged,
		"export and import":     exportAndImport,
		"import of what is not": importOfGarbage,
		"seal what has ended":   sealEnded,
		"views":                 views,
		"views of forks":        viewsOfForks,
	}
}

func snapshotter(t *testing.T, p vm.Provider) vm.Snapshotter {
	t.Helper()
	s, ok := p.(vm.Snapshotter)
	if !ok {
		t.Fatal("the provider does not seal machines")
	}
	return s
}

func seal(t *testing.T, s vm.Snapshotter, m vm.Machine, id vm.SnapshotID, keep bool) vm.Sealed {
	t.Helper()
	sealed, err := s.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: id, Keep: keep})
	if err != nil {
		t.Fatalf("Snapshot %s: %v", id, err)
	}
	t.Cleanup(func() {
		if err := s.RemoveSnapshot(context.Background(), id); err != nil {
			t.Errorf("RemoveSnapshot in clean-up: %v", err)
		}
	})
	info := m.Info()
	if sealed.ID != id || sealed.Template == "" || sealed.Shape != info.Shape || sealed.Network != info.Network ||
		sealed.Created.IsZero() || sealed.Host.Provider == "" || sealed.Host.Accelerator != info.Accelerator {
		t.Errorf("sealed is %+v", sealed.Snapshot)
	}
	if keep != sealed.Kept || keep && len(sealed.Digest) != 64 {
		t.Errorf("kept %t with digest %q, want %t", sealed.Kept, sealed.Digest, keep)
	}
	return sealed
}

func clone1(t *testing.T, s vm.Snapshotter, h Harness, id vm.SnapshotID, n int) vm.Machine {
	t.Helper()
	m, err := s.Clone(t.Context(), vm.CloneSpec{
		ID: vm.ID(fmt.Sprintf("d%d", n)), Incarnation: vm.Incarnation(fmt.Sprintf("i%d", n)), Snapshot: id, Network: h.Spec(t).Network,
	})
	if err != nil {
		t.Fatalf("Clone %d: %v", n, err)
	}
	t.Cleanup(func() {
		if err := m.Destroy(context.Background()); err != nil {
			t.Errorf("Destroy of clone %d in clean-up: %v", n, err)
		}
	})
	sound(t, m)
	if got := m.Info().Snapshot; got != id {
		t.Errorf("clone %d says that it comes from %q, want %q", n, got, id)
	}
	return m
}

// sound checks that a machine runs and answers.
func sound(t *testing.T, m vm.Machine) {
	t.Helper()
	if i := m.Info(); i.State != vm.StateRunning {
		t.Errorf("machine %s is %s", i.Incarnation, i.State)
	}
	display(t, m)
	guestEchoes(t, m)
}

func listed(t *testing.T, s vm.Snapshotter) []vm.SnapshotID {
	t.Helper()
	all, err := s.Snapshots(t.Context())
	if err != nil {
		t.Fatalf("Snapshots: %v", err)
	}
	ids := make([]vm.SnapshotID, 0, len(all))
	for _, one := range all {
		ids = append(ids, one.ID)
	}
	slices.Sort(ids)
	return ids
}

func sealAndCloneMany(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	m := make1(t, p, h, 1)
	got := seal(t, s, m, "s1", false)
	sound(t, m)
	if _, err := s.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s1"}); !errors.Is(err, vm.ErrExists) {
		t.Errorf("a second snapshot of one id: %v, want ErrExists", err)
	}
	sound(t, m)
	for n := 2; n <= 4; n++ {
		c := clone1(t, s, h, "s1", n)
		want := got.Template
		if got.Slow != "" {
			want = "" // what came through a stream is all the clone's own
		}
		if c.Info().Template != want || c.Info().Shape != m.Info().Shape {
			t.Errorf("clone %d is %+v", n, c.Info())
		}
	}
	if ids := listed(t, s); !slices.Equal(ids, []vm.SnapshotID{"s1"}) {
		t.Errorf("snapshots are %v", ids)
	}
}

func sealPaused(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	m := make1(t, p, h, 1)
	pauser := pauserOf(t, m)
	if err := pauser.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	seal(t, s, m, "s1", false)
	if got := m.Info().State; got != vm.StatePaused {
		t.Errorf("after the seal the paused machine is %s", got)
	}
	clone1(t, s, h, "s1", 2)
	if err := pauser.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	sound(t, m)
}

func pauserOf(t *testing.T, m vm.Machine) vm.Pauser {
	t.Helper()
	p, ok := m.(vm.Pauser)
	if !ok {
		t.Fatal("the provider does not pause machines")
	}
	return p
}

func pauseIsIdempotent(t *testing.T, h Harness) {
	t.Helper()
	m := make1(t, h.New(t), h, 1)
	pauser := pauserOf(t, m)
	for _, step := range []struct {
		do   func(context.Context) error
		want vm.State
	}{
		{pauser.Resume, vm.StateRunning},
		{pauser.Pause, vm.StatePaused},
		{pauser.Pause, vm.StatePaused},
		{pauser.Resume, vm.StateRunning},
		{pauser.Resume, vm.StateRunning},
	} {
		if err := step.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := m.Info().State; got != step.want {
			t.Errorf("state is %s, want %s", got, step.want)
		}
	}
	sound(t, m)
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := pauser.Pause(t.Context()); !errors.Is(err, vm.ErrGone) {
		t.Errorf("Pause after Destroy = %v, want ErrGone", err)
	}
}

func forkOfFork(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	m := make1(t, p, h, 1)
	first := seal(t, s, m, "s1", false)
	child := clone1(t, s, h, "s1", 2)
	second := seal(t, s, child, "s2", false)
	if second.Template != first.Template && second.Template != second.ID {
		t.Errorf("the second snapshot stands on template %s", second.Template)
	}
	sound(t, child)
	grandchild := clone1(t, s, h, "s2", 3)
	seal(t, s, grandchild, "s3", false)
	clone1(t, s, h, "s3", 4)
}

func parentDestroyed(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	m := make1(t, p, h, 1)
	seal(t, s, m, "s1", false)
	child := clone1(t, s, h, "s1", 2)
	if err := m.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	sound(t, child)
	clone1(t, s, h, "s1", 3)
}

func snapshotRemoved(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	m := make1(t, p, h, 1)
	seal(t, s, m, "s1", true)
	child := clone1(t, s, h, "s1", 2)
	seal(t, s, child, "s2", true)
	for range 2 {
		if err := s.RemoveSnapshot(t.Context(), "s1"); err != nil {
			t.Fatalf("RemoveSnapshot: %v", err)
		}
	}
	if ids := listed(t, s); !slices.Equal(ids, []vm.SnapshotID{"s2"}) {
		t.Errorf("snapshots are %v", ids)
	}
	if _, err := s.Clone(t.Context(), vm.CloneSpec{ID: "d9", Incarnation: "i9", Snapshot: "s1", Network: h.Spec(t).Network}); !errors.Is(err, vm.ErrNotFound) {
		t.Errorf("Clone of what was removed = %v, want ErrNotFound", err)
	}
	sound(t, child)
	stillKept(t, p, "s1")
	clone1(t, s, h, "s2", 3)
}

func keptOverRestart(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	want := beforeRestart(t, h, p)
	p = h.Restart(t, p)
	s := snapshotter(t, p)
	machines, err := p.Recover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(machines) != 2 {
		t.Errorf("%d machines were found again, want 2", len(machines))
	}
	for _, m := range machines {
		sound(t, m)
		t.Cleanup(func() { _ = m.Destroy(context.Background()) }) // looked at elsewhere
		if i := m.Info(); i.Incarnation == "i2" && (i.Snapshot != "s2" || i.Template == "") {
			t.Errorf("the clone has forgotten where it came from: %+v", i)
		}
	}
	all, err := s.Snapshots(t.Context())
	if err != nil || len(all) != 1 || all[0].ID != "s1" || all[0].Digest != want.Digest || !all[0].Kept {
		t.Fatalf("snapshots are %+v, %v; want s1 alone, as it was", all, err)
	}
	clone1(t, s, h, "s1", 3)
	if err := s.RemoveSnapshot(t.Context(), "s1"); err != nil {
		t.Error(err)
	}
}

// beforeRestart leaves a machine, its kept snapshot, one of the moment and a
// clone of that; nothing of them is cleaned up through the first provider.
func beforeRestart(t *testing.T, h Harness, p vm.Provider) vm.Sealed {
	t.Helper()
	s := snapshotter(t, p)
	spec := h.Spec(t)
	spec.ID, spec.Incarnation = "d1", "i1"
	m, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	kept, err := s.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s1", Keep: true})
	if err == nil {
		_, err = s.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: "s2"})
	}
	if err == nil {
		_, err = s.Clone(t.Context(), vm.CloneSpec{ID: "d2", Incarnation: "i2", Snapshot: "s2", Network: spec.Network})
	}
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func prepareAndDiscard(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	seal(t, s, make1(t, p, h, 1), "s1", false)
	spec := vm.CloneSpec{ID: "d2", Incarnation: "i2", Snapshot: "s1", Network: h.Spec(t).Network}
	for range 2 { // what was discarded has left nothing
		w, err := s.Prepare(t.Context(), spec)
		if err != nil {
			t.Fatalf("Prepare: %v", err)
		}
		for range 2 {
			if err := w.Discard(t.Context()); err != nil {
				t.Fatalf("Discard: %v", err)
			}
		}
	}
	spec.Paused = true
	w, err := s.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	m, err := w.Start(t.Context())
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { _ = m.Destroy(context.Background()) }) // looked at below
	if err := w.Discard(t.Context()); err != nil {
		t.Errorf("Discard after Start: %v", err)
	}
	if got := m.Info().State; got != vm.StatePaused {
		t.Errorf("a clone that was to be paused is %s", got)
	}
	if err := pauserOf(t, m).Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	sound(t, m)
	if err := m.Destroy(t.Context()); err != nil {
		t.Error(err)
	}
}

func refusedClones(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	seal(t, s, make1(t, p, h, 1), "s1", false)
	good := vm.CloneSpec{ID: "d2", Incarnation: "i2", Snapshot: "s1", Network: h.Spec(t).Network}
	for name, tt := range map[string]struct {
		change func(*vm.CloneSpec)
		want   error
	}{
		"a known incarnation": {func(c *vm.CloneSpec) { c.Incarnation = "i1" }, vm.ErrExists},
		"a bad id":            {func(c *vm.CloneSpec) { c.ID = "Not/Valid" }, vm.ErrInvalid},
		"no such snapshot":    {func(c *vm.CloneSpec) { c.Snapshot = "s9" }, vm.ErrNotFound},
	} {
		spec := good
		tt.change(&spec)
		if _, err := s.Clone(t.Context(), spec); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Clone(ctx, good); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled Clone = %v", err)
	}
	clone1(t, s, h, "s1", 2) // nothing of it was left
}

func damaged(t *testing.T, h Harness) {
	t.Helper()
	p := h.New(t)
	s := snapshotter(t, p)
	m := make1(t, p, h, 1)
	seal(t, s, m, "s1", true)
	h.Damage(t, p, "s1")
	spec := vm.CloneSpec{ID: "d2", Incarnation: "i2", Snapshot: "s1", Network: h.Spec(t).Network}
	if _, err := s.Clone(t.Context(), spec); !errors.Is(err, vm.ErrCorrupt) {
		t.Errorf("Clone of a damaged snapshot = %v, want ErrCorrupt", err)
	}
	sound(t, m)
}
