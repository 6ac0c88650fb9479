//go:build linux

package frost_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/guesthelper/frost"
	"github.com/deskfork/deskfork/internal/x/cgroup"
)

// kernel stands in for the kernel: a directory that looks like a control group.
type kernel struct {
	t   *testing.T
	dir string
}

// write changes a file at once, as the kernel does. All texts of one that is
// watched have one length.
func (k kernel) write(file, text string) {
	k.t.Helper()
	path := filepath.Join(k.dir, file)
	if file != cgroup.EventsFile {
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			k.t.Fatal(err)
		}
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		k.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		k.t.Fatal(err)
	}
}

func (k kernel) told() string {
	k.t.Helper()
	b, err := os.ReadFile(filepath.Join(k.dir, cgroup.FreezeFile))
	if err != nil {
		k.t.Fatal(err)
	}
	return string(b)
}

// group has two processes in it.
func group(t *testing.T) (kernel, *frost.Group) {
	t.Helper()
	k := kernel{t, filepath.Join(t.TempDir(), "parked")}
	g, err := frost.At(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	k.write(cgroup.FreezeFile, "0")
	k.write("cgroup.procs", "7\n8\n")
	k.write(cgroup.EventsFile, "populated 1\nfrozen 0\n")
	return k, g
}

// frozen has the group stand still.
func frozen(t *testing.T) (kernel, *frost.Still) {
	t.Helper()
	k, g := group(t)
	k.write(cgroup.EventsFile, "populated 1\nfrozen 1\n")
	s, err := g.Freeze(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if got := k.told(); got != "1" || g.Switch() != filepath.Join(k.dir, cgroup.FreezeFile) {
		t.Fatalf("the kernel was told %q through %s", got, g.Switch())
	}
	return k, s
}

// TestFreezeWaits until the last process stands still.
func TestFreezeWaits(t *testing.T) {
	t.Parallel()
	k, g := group(t)
	done := make(chan error, 1)
	go func() {
		s, err := g.Freeze(t.Context())
		if err == nil {
			s.Close()
		}
		done <- err
	}()
	for k.told() != "1" {
		<-time.After(time.Millisecond)
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	k.write(cgroup.EventsFile, "populated 1\nfrozen 1\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestFreezeGivesUp: what cannot be frozen goes on.
func TestFreezeGivesUp(t *testing.T) {
	t.Parallel()
	k, g := group(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := g.Freeze(ctx); !errors.Is(err, context.DeadlineExceeded) || k.told() != "0" {
		t.Errorf("%v, and the kernel was told %q at last", err, k.told())
	}
}

// TestMoves: what happens to a group that stands still is noticed, and what does
// not touch it is not.
func TestMoves(t *testing.T) {
	t.Parallel()
	for name, move := range map[string]func(k kernel){
		"thawed by somebody": func(k kernel) { k.write(cgroup.EventsFile, "populated 1\nfrozen 0\n") },
		"a process killed": func(k kernel) {
			k.write("cgroup.procs", "7\n")
			k.write(cgroup.EventsFile, "populated 1\nfrozen 1\n")
		},
		"all of them killed": func(k kernel) {
			k.write("cgroup.procs", "")
			k.write(cgroup.EventsFile, "populated 0\nfrozen 1\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, s := frozen(t)
			done := make(chan error, 1)
			go func() { done <- s.Moves(t.Context()) }()
			k.write(cgroup.EventsFile, "populated 1\nfrozen 1\n") // as it was
			select {
			case err := <-done:
				t.Fatalf("nothing moved: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			move(k)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := s.Thaw(); err != nil || k.told() != "0" {
				t.Errorf("thawed: %v, %q", err, k.told())
			}
		})
	}
}

// TestMovesIsGivenUp: by its caller, or because the group is gone.
func TestMovesIsGivenUp(t *testing.T) {
	t.Parallel()
	k, s := frozen(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Moves(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if err := os.RemoveAll(k.dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Moves(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no group: %v", err)
	}
}

// TestFree: a group is free when nothing lives in it.
func TestFree(t *testing.T) {
	t.Parallel()
	k, g := group(t)
	if g.Free() {
		t.Error("two processes are nobody")
	}
	k.write(cgroup.EventsFile, "populated 0\nfrozen 0\n")
	if !g.Free() {
		t.Error("nobody is somebody")
	}
	if _, err := frost.At(filepath.Join(k.dir, "nowhere", "parked")); err == nil || !strings.Contains(err.Error(), "make cgroup") {
		t.Errorf("a group that cannot be made: %v", err)
	}
	var none *frost.Group
	if none.File() != nil || g.File() == nil {
		t.Error("a group is its directory, and none has none")
	}
}
