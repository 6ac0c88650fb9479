//go:build integration && more

package e2e_test

import (
	"archive/tar"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/blob/s3test"
)

func workspaceName() string { return "long-" + strings.ToLower(rand.Text()[:8]) }

// restored is a desktop with a workspace.
func restored(t *testing.T, word string) desk {
	t.Helper()
	return breakable(t, api.CreateDesktop{Workspace: word}, api.StageDrawn)
}

// TestLongWorkspaceStoreAway: a store that is away for a minute in the middle of a
// checkpoint is waited for; one that does not come back fails the checkpoint, and
// that alone: the desktop goes on, what was published stays, and the next one is as
// small as if nothing had been.
func TestLongWorkspaceStoreAway(t *testing.T) {
	alone(t)
	l := inS3(t)
	files := workspaceName()
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 512}, api.StageDrawn)
	d.sh(t, "head -c 8M /dev/urandom > /workspace/first")
	if _, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files}); err != nil {
		t.Fatal(err)
	}
	a := outage(t, l, d, time.Minute)
	if a.err != nil {
		t.Fatalf("the store was away for a minute: %v", a.err)
	}
	last := a.made
	began := time.Now()
	a = outage(t, l, d, time.Hour)
	if !is(a.err, api.CodeDeadline) || !strings.Contains(a.err.Error(), "try again") {
		t.Errorf("the store did not come back: %+v, %v", a.made, a.err)
	}
	t.Logf("a store that does not come back is given up after %s: %v", time.Since(began).Round(time.Second), a.err)
	d.writable(t)
	l.befall(nil)
	log, err := host.Client.Workspaces().Log(t.Context(), files)
	if err != nil || len(log) != 2 || log[0].Ref != last.Ref {
		t.Errorf("log %+v, %v", log, err)
	}
	c, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{})
	if err != nil || c.Parent != last.Ref || c.Full != "" {
		t.Fatalf("after it: %+v, %v", c, err)
	}
	want := d.sh(t, hashFiles)
	l.befall(func(int, *http.Request) s3test.Trouble { return s3test.Trouble{Refuse: true} })
	if _, err := host.Client.Desktops().Create(t.Context(), api.CreateDesktop{Image: "debian-xfce", Workspace: files}); !is(err, api.CodeDeadline) {
		t.Errorf("a restore while the store is away: %v", err)
	}
	l.befall(nil)
	if got := restored(t, files).sh(t, hashFiles); got != want {
		t.Errorf("restored is\n%s\nwant\n%s", got, want)
	}
}

// TestLongWorkspaceOfAGigabyte: what is added to much costs what is added.
func TestLongWorkspaceOfAGigabyte(t *testing.T) {
	alone(t)
	l := inS3(t)
	files := workspaceName()
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 1280}, api.StageDrawn)
	d.sh(t, "cd /workspace; mkdir many; for i in $(seq 500); do head -c 4096 /dev/urandom > many/$i; done")
	for _, part := range []string{"a", "b", "c", "d"} {
		d.sh(t, "head -c 256M /dev/urandom > /workspace/"+part+"; sync")
	}
	first, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files})
	if err != nil || first.Added < 1<<30 {
		t.Fatalf("first %+v, %v", first, err)
	}
	for what, tc := range map[string]struct {
		script string
		most   int64
	}{
		"8 MiB appended":      {"head -c 8M /dev/urandom >> /workspace/a; sync", 10 << 20},
		"500 files rewritten": {rewriteFiles, 2 * 500 * 4096},
		"nothing":             {"sync", 1 << 20},
	} {
		d.sh(t, tc.script)
		sent := l.uploaded(func() {
			if c, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{}); err != nil || c.Full != "" {
				t.Fatalf("%s: %+v, %v", what, c, err)
			}
		})
		t.Logf("%s: %d bytes sent", what, sent)
		if sent > tc.most {
			t.Errorf("%s sent %d bytes, want at most %d", what, sent, tc.most)
		}
	}
	want := d.sh(t, hashFiles)
	if got := restored(t, files).sh(t, hashFiles); got != want {
		t.Errorf("restored is\n%s\nwant\n%s", got, want)
	}
}

// TestLongWorkspaceDiskFullInGuest: a workspace in which nothing fits any more is
// kept and comes back, and goes on when there is room.
func TestLongWorkspaceDiskFullInGuest(t *testing.T) {
	beside(t)
	files := workspaceName()
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 128}, api.StageDrawn)
	full := "head -c 32M /dev/urandom > /workspace/kept; ! dd if=/dev/urandom of=/workspace/full bs=1M status=none 2>/dev/null; sync; ! sh -c 'echo x > /workspace/more' 2>/dev/null"
	d.sh(t, full)
	if _, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files}); err != nil {
		t.Fatal(err)
	}
	want := d.sh(t, hashFiles)
	other := restored(t, files)
	if got := other.sh(t, hashFiles); got != want {
		t.Errorf("restored is\n%s\nwant\n%s", got, want)
	}
	other.sh(t, "rm /workspace/full; echo x > /workspace/more")
	if c, err := other.Checkpoint(t.Context(), api.CreateCheckpoint{}); err != nil || c.Full != "" || c.Added > 4<<20 {
		t.Errorf("after room was made: %+v, %v", c, err)
	}
	if _, err := host.Client.Workspaces().Import(t.Context(), files+"-in", api.ImportWorkspace{Image: "debian-xfce", SizeMiB: 64}, tarOf(t, 128<<20)); !is(err, api.CodeNoSpace) {
		t.Errorf("128 MiB into a disk of 64: %v", err)
	}
}

// TestLongWorkspaceStoreFull: a store that is full fails the checkpoint and says
// so; with room the same desktop is kept.
func TestLongWorkspaceStoreFull(t *testing.T) {
	alone(t)
	if os.Geteuid() != 0 {
		t.Fatal("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=700"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	serveWith(t, "--blobs", filepath.Join(dir, "blobs"))
	files := workspaceName()
	d := breakable(t, api.CreateDesktop{WorkspaceMiB: 256}, api.StageDrawn)
	d.sh(t, "head -c 64M /dev/urandom > /workspace/big; sync")
	_, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files})
	if !is(err, api.CodeNoSpace) {
		t.Errorf("into a store of 24 MiB: %v", err)
	}
	d.writable(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=256m"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Checkpoint(t.Context(), api.CreateCheckpoint{Workspace: files}); err != nil {
		t.Fatalf("with room: %v", err)
	}
	if v, err := host.Client.Workspaces().Verify(t.Context(), files); err != nil || !v.OK {
		t.Errorf("verify %+v, %v", v, err)
	}
	want := d.sh(t, hashFiles)
	if got := restored(t, files).sh(t, hashFiles); got != want {
		t.Errorf("restored is\n%s\nwant\n%s", got, want)
	}
}

// tarOf is a tar with one file of random bytes.
func tarOf(t *testing.T, size int64) io.Reader {
	t.Helper()
	from, to := io.Pipe()
	t.Cleanup(func() { _ = from.Close() })
	go func() {
		w := tar.NewWriter(to)
		err := w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: size})
		if err == nil {
			_, err = io.CopyN(w, rand.Reader, size)
		}
		to.CloseWithError(errors.Join(err, w.Close()))
	}()
	return from
}
