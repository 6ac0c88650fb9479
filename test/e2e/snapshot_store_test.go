//go:build integration

package e2e_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/workspace/seal"
	"github.com/deskfork/deskfork/test/harness"
)

// sharedStore is a blob store that encrypts, as flags of hosts: --blobs DIR
// --blob-key FILE.
func sharedStore(t *testing.T) (flags []string) {
	t.Helper()
	key, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "key")
	if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--blobs", filepath.Join(dir, "blobs"), "--blob-key", file}
}

// throughStore brings a desktop to a third host through the blob store: its
// programs go on there. An export that is damaged, or lacks a part, is refused by
// name and leaves nothing, and nobody reads in the store what the desktop holds.
func (a *apart) throughStore(t *testing.T, d desk) {
	t.Helper()
	secret := canary()
	s := d.counting(t)
	d.sh(t, "echo "+secret+" > /workspace/secret; sync")
	snaps := a.Client.Snapshots()
	if _, err := d.Snapshot(t.Context(), "travels"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	made, err := snaps.Store(t.Context(), "travels", "travels")
	if err != nil {
		t.Fatalf("export to the store: %v", err)
	}
	t.Logf("%d MiB were stored in %s", made.Bytes>>20, time.Since(began).Round(100*time.Millisecond))
	if err := snaps.Remove(t.Context(), "travels"); err != nil {
		t.Error(err)
	}
	blobs := filesBelow(t, a.store[1])
	if places := found(t, blobs, [][]byte{[]byte(secret)}); len(blobs) < 3 || len(places) > 0 {
		t.Errorf("the secret is in the store's %d files: %v", len(blobs), places)
	}
	far := another(t, a.store)
	a.damagedStore(t, far, blobs)
	began = time.Now()
	if _, err := far.Client.Snapshots().Fetch(t.Context(), "travels", "came"); err != nil {
		t.Fatalf("import from the store: %v", err)
	}
	t.Logf("it was imported in %s", time.Since(began).Round(100*time.Millisecond))
	twin, err := far.Client.Desktops().Create(t.Context(), api.CreateDesktop{Snapshot: "came"}, client.Until(api.StageDrawn), client.Within(3*time.Minute))
	if err != nil {
		t.Fatalf("create from what was imported: %v", err)
	}
	its := s.again()
	its.count(t, desk{twin}, "on the third host")
	if got := (desk{twin}).sh(t, "cat /workspace/secret"); got != secret+"\n" {
		t.Errorf("it has %q", got)
	}
	s.count(t, d, "on the second host")
	desk{twin}.remove(t)
	if err := far.Client.Snapshots().RemoveStored(t.Context(), "travels"); err != nil {
		t.Error(err)
	}
	if left := filesBelow(t, filepath.Join(a.store[1], "snapshots")); len(left) > 0 {
		t.Errorf("left in the store: %v", left)
	}
}

// damagedStore spoils the largest of the files, and takes it away.
func (a *apart) damagedStore(t *testing.T, far *harness.Daemon, files []string) {
	t.Helper()
	largest, good := "", []byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > len(good) {
			largest, good = f, b
		}
	}
	bad := bytes.Clone(good)
	bad[len(bad)/2] ^= 1
	for what, spoil := range map[string]func() error{
		"damaged": func() error { return os.WriteFile(largest, bad, 0o600) },
		"missing": func() error { return os.Remove(largest) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		_, err := far.Client.Snapshots().Fetch(t.Context(), "travels", "came")
		if e := problem(t, err); e.Code != api.CodeImageCorrupt {
			t.Errorf("with a part that is %s: %+v", what, e)
		}
		if list, err := far.Client.Snapshots().List(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("with a part that is %s there is %+v, %v", what, list, err)
		}
		if left, _ := filepath.Glob(filepath.Join(far.Data, "templates", "*", "*")); len(left) > 0 {
			t.Errorf("with a part that is %s there is left %v", what, left)
		}
		if err := os.WriteFile(largest, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// another is a host of the test's own that has the images, and a store that others
// have too.
func another(t *testing.T, store []string) *harness.Daemon {
	t.Helper()
	d, err := harness.New(t.Context(), host.Bin, filepath.Dir(host.Data))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Remove)
	d.Args = store
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			d.DumpLog()
		}
		d.Stop()
	})
	return d
}
