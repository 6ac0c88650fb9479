//go:build linux

package cgroup_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/deskfork/deskfork/internal/x/cgroup"
)

// group makes a directory look like a control group, as far as it is looked at.
func group(t *testing.T, dir, events, procs string) string {
	t.Helper()
	f, err := cgroup.Make(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	for name, text := range map[string]string{cgroup.EventsFile: events, cgroup.FreezeFile: "-", "cgroup.procs": procs} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestLook(t *testing.T) {
	for events, want := range map[string]cgroup.State{
		"populated 0\nfrozen 0\n": {},
		"populated 1\nfrozen 0\n": {Populated: true},
		"populated 1\nfrozen 1\n": {Populated: true, Frozen: true},
		"frozen 1":                {Frozen: true},
	} {
		want.Processes = "7\n8\n"
		got, err := cgroup.Look(group(t, t.TempDir(), events, want.Processes))
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", events, got, err)
		}
	}
	if _, err := cgroup.Look(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no group: %v", err)
	}
}

// TestFreeze: a group is told; where there is none nothing is made.
func TestFreeze(t *testing.T) {
	top := t.TempDir()
	one, other := group(t, top+"/one", "", ""), group(t, top+"/other", "", "")
	says := func(dir string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, cgroup.FreezeFile))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if err := cgroup.Freeze(one); err != nil || says(one) != "1" || says(other) != "-" {
		t.Errorf("frozen: %q and %q, %v", says(one), says(other), err)
	}
	if err := cgroup.ThawBelow(top); err != nil || says(one) != "0" || says(other) != "0" {
		t.Errorf("thawed: %q and %q, %v", says(one), says(other), err)
	}
	if err := cgroup.ThawBelow(one); err != nil {
		t.Errorf("nothing below: %v", err)
	}
	if err := cgroup.Freeze(top); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no group: %v", err)
	}
	if _, err := os.Stat(filepath.Join(top, cgroup.FreezeFile)); err == nil {
		t.Error("a file was made where there is no group")
	}
}
