package qemu_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/vm"
	"github.com/deskfork/deskfork/pkg/vm/qemu"
	"github.com/deskfork/deskfork/pkg/vm/qmp"
)

// forkAndFork is the life that TestKillAtEveryStepOfForks cuts off: a kept
// snapshot, a clone of it, a fork of that, and an end of the one in the middle.
func forkAndFork(p *qemu.Provider, m vm.Machine) error {
	ctx := context.Background()
	if _, err := p.Snapshot(ctx, m, vm.SnapshotSpec{ID: "s1", Keep: true}); err != nil {
		return err
	}
	c1, err := p.Clone(ctx, cloneSpec("s1", 1))
	if err != nil {
		return err
	}
	if _, err := p.Snapshot(ctx, c1, vm.SnapshotSpec{ID: "s2"}); err != nil {
		return err
	}
	if _, err := p.Clone(ctx, cloneSpec("s2", 2)); err != nil {
		return err
	}
	if err := p.RemoveSnapshot(ctx, "s2"); err != nil {
		return err
	}
	return c1.Destroy(ctx)
}

// ripe waits until a machine's firmware has given the display its place: until
// then snapshots take the slow way, which has other steps.
func ripe(p *qemu.Provider, m vm.Machine) error {
	for n := 0; ; n++ {
		id := vm.SnapshotID(fmt.Sprintf("x%d", n)) // its disks are in use from then on
		sealed, err := p.Snapshot(context.Background(), m, vm.SnapshotSpec{ID: id})
		if err == nil {
			err = p.RemoveSnapshot(context.Background(), id)
		}
		if err != nil || sealed.Slow == "" {
			return err
		}
		<-time.After(200 * time.Millisecond)
	}
}

func cloneSpec(id vm.SnapshotID, n int) vm.CloneSpec {
	return vm.CloneSpec{
		ID: vm.ID(fmt.Sprintf("c%d", n)), Incarnation: vm.Incarnation(fmt.Sprintf("ic%d", n)),
		Snapshot: id, Network: vm.NetworkOpen,
	}
}

// forkOutcome is what must be there after a daemon died behind these steps.
func forkOutcome(steps []string) (machines, snapshots []string) {
	count := func(name string) (n int) {
		for _, s := range steps {
			if s == name {
				n++
			}
		}
		return n
	}
	machines = []string{"i1"}
	if count("clone/running") >= 1 && count("destroy/mark") == 0 {
		machines = append(machines, "ic1")
	}
	if count("clone/running") >= 2 {
		machines = append(machines, "ic2")
	}
	if count("snapshot/commit") >= 1 {
		snapshots = []string{"s1"}
	}
	return machines, snapshots
}

// killForks kills a daemon after each step of Snapshot, Clone and what follows.
// The next one must find every machine that had been handed out, running, and no
// half snapshot or child.
func killForks(t *testing.T, newEnv func(*testing.T) *env) {
	t.Helper()
	seen := map[string]bool{}
	for step := 1; ; step++ {
		e := newEnv(t)
		steps := strings.Fields(e.crashAt(t, step, "fork"))
		last := steps[len(steps)-1]
		seen[last] = true
		t.Run(fmt.Sprintf("%02d %s", step, filepath.Base(last)), func(t *testing.T) {
			machines, snapshots := forkOutcome(steps)
			for round := range 2 { // the second finds what the first has put right
				e.assertFound(t, fmt.Sprintf("after %s, round %d", last, round), machines, snapshots, round == 1)
			}
			e.assertNothingLeft(t)
		})
		if last == "done" {
			break
		}
	}
	for _, want := range []string{"snapshot/journal", "snapshot/stop", "snapshot/switch", "snapshot/commit", "clone/spawn", "clone/load", "clone/resume", "destroy/directory"} {
		if !seen[want] {
			t.Errorf("step %s was not tried: %v", want, seen)
		}
	}
}

// assertFound recovers, and looks at machines from outside once the provider has
// let go of them.
func (e *env) assertFound(t *testing.T, when string, machines, snapshots []string, cleared bool) {
	t.Helper()
	p, err := qemu.New(e.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	adopted, err := p.Recover(t.Context())
	if err != nil {
		t.Errorf("%s: Recover: %v", when, err)
	}
	var got, listed []string
	for _, m := range adopted {
		got = append(got, string(m.Info().Incarnation))
	}
	all, err := p.Snapshots(t.Context())
	if err != nil {
		t.Error(err)
	}
	for _, s := range all {
		listed = append(listed, string(s.ID))
	}
	slices.Sort(got)
	if !slices.Equal(got, machines) || !slices.Equal(listed, snapshots) {
		t.Errorf("%s: machines %v and snapshots %v, want %v and %v", when, got, listed, machines, snapshots)
	}
	if !cleared {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		for _, inc := range got {
			e.assertRuns(t, when, inc)
		}
		return
	}
	for _, s := range all { // what is listed can be cloned, and each machine sealed
		c, err := p.Clone(t.Context(), cloneSpec(s.ID, 9))
		if err != nil {
			t.Errorf("%s: clone of %s: %v", when, s.ID, err)
			continue
		}
		adopted = append(adopted, c)
	}
	for i, m := range adopted {
		id := vm.SnapshotID(fmt.Sprintf("again%d", i))
		if _, err := p.Snapshot(t.Context(), m, vm.SnapshotSpec{ID: id}); err != nil {
			t.Errorf("%s: machine %s cannot be sealed: %v", when, m.Info().Incarnation, err)
		}
		all = append(all, vm.Snapshot{ID: id})
	}
	for _, m := range adopted {
		destroy(t, m)
	}
	for _, s := range all {
		if err := p.RemoveSnapshot(t.Context(), s.ID); err != nil {
			t.Error(err)
		}
	}
}

// assertRuns asks QEMU itself.
func (e *env) assertRuns(t *testing.T, when, inc string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mon, err := qmp.Dial(ctx, filepath.Join(e.cfg.RuntimeDir, "vm", inc, "qmp"), qmp.Config{})
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	defer func() { _ = mon.Close() }()
	var now struct{ Status string }
	if err := mon.Execute(ctx, "query-status", nil, &now); err != nil || now.Status != "running" {
		t.Errorf("%s: machine %s is %q, %v", when, inc, now.Status, err)
	}
}

func destroy(t *testing.T, m vm.Machine) {
	t.Helper()
	if err := m.Destroy(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestKillAtEveryStepOfForksWithFakeQEMU(t *testing.T) { //nolint:tparallel // its steps are an order
	t.Parallel()
	killForks(t, newEnv)
}
