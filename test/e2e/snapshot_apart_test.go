//go:build integration

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// apart is a host of the test's own, on a small disk, with one snapshot that was
// moved there. What happens to it is nobody else's trouble.
type apart struct {
	*harness.Daemon

	store []string // flags of the blob store that others may have too
	seed  api.Snapshot
}

// apartMiB is the size of that disk: desktops and what admission keeps free. Most
// of it is never taken.
const apartMiB = 6144

// TestAnotherHost moves a snapshot to another host, and breaks that one.
func TestAnotherHost(t *testing.T) {
	beside(t)
	a := newApart(t)
	d := a.clone(t)
	if got := d.sh(t, "cat /workspace/moved"); got != "with it\n" {
		t.Errorf("the moved desktop has %q", got)
	}
	t.Run("through the store", func(t *testing.T) {
		kid := a.clone(t) // of its own: what is sealed of it goes with it
		a.throughStore(t, kid)
		kid.remove(t)
	})
	t.Run("tampered", func(t *testing.T) { a.tampered(t, d) })
	t.Run("full disk", func(t *testing.T) { a.full(t, d) })
	t.Run("killed", func(t *testing.T) { a.killed(t, d) })
	t.Run("billed", a.billed)
}

func newApart(t *testing.T) *apart {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("mounting a small file system needs root")
	}
	data, err := os.MkdirTemp(filepath.Dir(host.Data), "apart-") //nolint:usetesting // shorter, or elsewhere than its directory
	if err != nil {
		t.Fatal(err)
	}
	run, err := os.MkdirTemp("/tmp", "dfa") //nolint:usetesting // shorter, or elsewhere than its directory
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(run, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=711", apartMiB)); err != nil {
		t.Fatal(err)
	}
	port, err := harness.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	store := sharedStore(t)
	a := &apart{store: store, Daemon: &harness.Daemon{Bin: host.Bin, Data: data, Run: run, Address: fmt.Sprintf("127.0.0.1:%d", port), Args: store}}
	t.Cleanup(func() {
		if err := syscall.Unmount(data, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
		a.Remove()
	})
	images, err := filepath.EvalSymlinks(filepath.Join(host.Data, "images"))
	if err == nil {
		err = os.Symlink(images, filepath.Join(data, "images"))
	}
	if err == nil {
		err = a.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		a.empty(t)
		if t.Failed() {
			a.DumpLog()
		}
		a.Stop()
	})
	a.seed = a.receive(t)
	return a
}

// receive moves a snapshot of a desktop from the shared host to this one.
func (a *apart) receive(t *testing.T) api.Snapshot {
	t.Helper()
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 64}, api.StageDrawn)
	d.sh(t, "echo with it > /workspace/moved")
	snap := d.keep(t)
	d.remove(t)
	began := time.Now()
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(host.Client.Snapshots().Export(t.Context(), snap.ID, w)) }()
	got, err := a.Client.Snapshots().Import(t.Context(), "seed", r)
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	t.Logf("a snapshot of %d MiB moved in %s", (snap.MemoryBytes+got.MemoryBytes)>>20, time.Since(began).Round(100*time.Millisecond))
	return got
}

// empty deletes all desktops of the host, and looks for what they leave.
func (a *apart) empty(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	all, err := a.Client.Desktops().List(ctx, client.Filter{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, d := range all {
		if err := a.Client.Desktops().Delete(ctx, d.ID); err != nil {
			t.Errorf("delete %s: %v", d.ID, err)
		}
	}
	if left := pidsOf(t, a.Run+"/"); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	for _, pattern := range []string{a.Data + "/desktops/*/*", a.Run + "/vm/[^.]*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

func (a *apart) clone(t *testing.T) desk {
	t.Helper()
	d, err := a.create(t.Context())
	if err != nil {
		t.Fatalf("create from the snapshot: %v", err)
	}
	return desk{d}
}

func (a *apart) create(ctx context.Context) (*client.Desktop, error) {
	return a.Client.Desktops().Create(ctx, api.CreateDesktop{Snapshot: "seed"}, client.Until(api.StageDrawn), client.Within(3*time.Minute))
}

// stored are the files of snapshots.
func (a *apart) stored(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(a.Data, "templates", "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no snapshot in %s, %v", a.Data, err)
	}
	slices.Sort(files)
	return files
}

// tampered changes one byte in each file of the snapshot: it is refused, and what
// runs goes on.
func (a *apart) tampered(t *testing.T, d desk) {
	t.Helper()
	names := map[string]bool{}
	for _, file := range a.stored(t) {
		name := filepath.Base(file)
		names[name] = true
		undo := tamper(t, file)
		_, err := a.create(t.Context())
		if e := problem(t, err); e.Code != api.CodeImageCorrupt {
			t.Errorf("%s: a clone of it: %+v", name, e)
		}
		_, err = d.Restore(t.Context(), "seed")
		if e := problem(t, err); e.Code != api.CodeImageCorrupt {
			t.Errorf("%s: a restore of it: %+v", name, e)
		}
		undo()
	}
	for _, want := range []string{"ram", "state", "vram", "system.qcow2", "workspace.qcow2", "meta.json"} {
		if !names[want] {
			t.Errorf("the snapshot has no file %s: %v", want, names)
		}
	}
	d.sh(t, "true")
	a.others(t, d, api.CodeImageCorrupt)
	a.clone(t).remove(t) // as it was
	if _, err := d.Suspend(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	states, err := filepath.Glob(filepath.Join(a.Data, "templates", "s*", "state"))
	if err != nil || len(states) != 2 {
		t.Fatalf("states: %v, %v", states, err)
	}
	for _, file := range states {
		if !strings.Contains(file, a.seed.ID) {
			undo := tamper(t, file)
			_, err := d.Resume(t.Context())
			code(t, err, api.CodeImageCorrupt)
			d.comesTo(t, now.State)
			undo()
		}
	}
	if _, err := d.Resume(t.Context()); err != nil {
		t.Fatalf("resume after the file was mended: %v", err)
	}
	d.sh(t, "true")
}

// others removes all desktops but one: those that have failed, as the test wants.
func (a *apart) others(t *testing.T, but desk, why api.Code) {
	t.Helper()
	all, err := a.Client.Desktops().List(t.Context(), client.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		if o.ID == but.Info.ID {
			continue
		}
		if o.State != api.StateFailed || o.Failure == nil || o.Failure.Code != why {
			t.Errorf("want one that failed with %s: %+v, %+v", why, o, o.Failure)
		}
		if err := a.Client.Desktops().Delete(t.Context(), o.ID); err != nil {
			t.Error(err)
		}
	}
}

// tamper changes one byte that is not in a hole. Small files keep their time of
// change: what they hold counts.
func tamper(t *testing.T, file string) (undo func()) {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const seekData = 3
	at, err := f.Seek(info.Size()/2, seekData)
	if err != nil {
		if at, err = f.Seek(0, seekData); err != nil {
			t.Fatalf("%s has no data: %v", file, err)
		}
	}
	flip := func() error {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		var b [1]byte
		_, err = f.ReadAt(b[:], at)
		b[0] ^= 1
		if err == nil {
			_, err = f.WriteAt(b[:], at)
		}
		if info.Size() < 1<<20 {
			err = errors.Join(err, os.Chtimes(file, info.ModTime(), info.ModTime()))
		}
		return errors.Join(err, f.Close())
	}
	if err := flip(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := flip(); err != nil {
			t.Fatal(err)
		}
	}
}

// full lets the disk have less and less lack of room, until a verb finds enough:
// up to then it says so, the desktop goes on, and nothing is left of the attempt.
func (a *apart) full(t *testing.T, d desk) {
	t.Helper()
	for name, verb := range map[string]func(context.Context) error{
		"fork": func(ctx context.Context) error {
			made, err := d.Fork(ctx, api.Fork{}, client.Until(api.StageDrawn))
			for _, kid := range made {
				err = errors.Join(err, kid.Delete(ctx))
			}
			return err
		},
		"snapshot": func(ctx context.Context) error {
			_, err := d.Snapshot(ctx, "more")
			if err == nil {
				err = a.Client.Snapshots().Remove(ctx, "more")
			}
			return err
		},
		"suspend": func(ctx context.Context) error {
			_, err := d.Suspend(ctx)
			if err == nil {
				_, err = d.Resume(ctx)
			}
			return err
		},
	} {
		var refused []int64
		for free := int64(3 << 20); ; free *= 2 {
			if free < 64<<20 {
				a.leave(t, free)
			}
			err := verb(t.Context())
			a.leave(t, apartMiB<<20)
			if err == nil {
				break
			}
			if !is(err, api.CodeNoSpace) && (name != "fork" || !is(err, api.CodeNoCapacity)) { // admission looks first
				t.Errorf("%s with %d MiB free: %v", name, free>>20, err)
			}
			if free >= 64<<20 {
				t.Fatalf("%s with room for it: %v", name, err)
			}
			refused = append(refused, free>>20)
			if now, err := d.Get(t.Context()); err != nil || now.State != api.StateReady {
				t.Fatalf("after a %s with %d MiB free it is %+v, %v", name, free>>20, now, err)
			}
			d.sh(t, "echo more > /workspace/more; sync; cat /workspace/more")
			a.others(t, d, api.CodeNoSpace)
			a.useful(t, d)
		}
		t.Logf("%s was refused with %v MiB free", name, refused)
		if len(refused) == 0 {
			t.Errorf("%s went well with %d MiB free", name, 3)
		}
		d.sh(t, "cat /workspace/more")
	}
}

// useful demands that each file in the store is the seed's, or one that a
// desktop stands on.
func (a *apart) useful(t *testing.T, d desk) {
	t.Helper()
	now, err := d.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(filepath.Join(a.Data, "desktops", now.ID, now.Incarnation, "journal.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range a.stored(t) {
		dir, name := filepath.Base(filepath.Dir(file)), filepath.Base(file)
		if dir != a.seed.ID && !strings.Contains(string(journal), dir+"/"+name) {
			t.Errorf("%s/%s is of no use: the journal says %s", dir, name, journal)
		}
	}
}

// leave makes the disk as large as what is on it and so much more, at most as
// large as it was.
func (a *apart) leave(t *testing.T, free int64) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(a.Data, &st); err != nil {
		t.Fatal(err)
	}
	size := min(int64(st.Blocks-st.Bfree)*st.Bsize+free, apartMiB<<20)
	if err := syscall.Mount("tmpfs", a.Data, "tmpfs", syscall.MS_REMOUNT, fmt.Sprintf("size=%d", size)); err != nil {
		t.Fatal(err)
	}
}
