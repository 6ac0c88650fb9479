package exec

import (
	"os"
	"path/filepath"
	"testing"
)

// populate makes a directory look like a control group, as far as we look.
func populate(t *testing.T, g *cgroup, events string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.path, "cgroup.events"), []byte(events), 0o600); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, s *groups) *cgroup {
	t.Helper()
	g, err := s.take()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestGroupsAreLentAgain: but only once nothing lives in them, and then their
// last borrower can kill nothing in them any more.
func TestGroupsAreLentAgain(t *testing.T) {
	s := &groups{parent: t.TempDir()}
	busy, idle := &Exec{group: take(t, s), reaped: true}, &Exec{group: take(t, s), reaped: true}
	populate(t, busy.group, "populated 1\nfrozen 0\n")
	populate(t, idle.group, "populated 0\nfrozen 0\n")
	first, second := busy.group, idle.group
	s.give(busy.leave())
	s.give(idle.leave())
	if g := take(t, s); g != second {
		t.Errorf("lent %s; want %s again", g.path, second.path)
	}
	if g := take(t, s); g == first {
		t.Error("a group with processes in it was lent")
	}
	killed := func(g *cgroup) bool {
		_, err := os.Stat(filepath.Join(g.path, "cgroup.kill"))
		return err == nil
	}
	idle.Kill()
	if killed(second) {
		t.Error("an exec that has left a group still kills in it")
	}
	busy.Kill()
	if !killed(first) {
		t.Error("an exec cannot kill what it has left behind")
	}
}
