//go:build integration

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/test/harness"
)

// TestBootSnapshotDamaged: the boot snapshot of an image that is not what it was
// is not used, and made anew, and both are said. The host is a copy of the shared
// one.
func TestBootSnapshotDamaged(t *testing.T) {
	alone(t)
	d := copied(t)
	old := boot(t, d)
	tamper(t, filepath.Join(d.Data, "templates", old.ID, "ram"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	made, err := d.Client.Desktops().Create(ctx, api.CreateDesktop{Image: old.ImageDigest, WorkspaceMiB: 64})
	if err != nil {
		t.Fatal(err)
	}
	var told bool
	for event, err := range d.Client.Events(ctx, client.EventOptions{Desktop: made.Info.ID, After: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == "desktop.waiting" && strings.Contains(fmt.Sprint(event.Data["for"]), "sealed") {
			told = true
			break
		}
	}
	log, err := os.ReadFile(filepath.Join(d.Data, "vmhost.log"))
	if err != nil || !told || !strings.Contains(string(log), "boot snapshot is damaged") {
		t.Errorf("nobody was told: event %t, %v", told, err)
	}
	if _, err := d.Client.Snapshots().Get(t.Context(), old.ID); !is(err, api.CodeNotFound) {
		t.Errorf("the damaged snapshot: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(d.Data, "templates", old.ID, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if long(t) { // a cold boot
		if _, err := made.Wait(t.Context(), api.StageDrawn, harness.BootTimeout); err != nil {
			t.Fatal(err)
		}
		if now := boot(t, d); now.ID == old.ID {
			t.Errorf("the boot snapshot is still %s", old.ID)
		}
	}
	desk{made}.remove(t)
}

// boot is the boot snapshot of a host.
func boot(t *testing.T, d *harness.Daemon) api.Snapshot {
	t.Helper()
	all, err := d.Client.Snapshots().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Kind == "boot" {
			return s
		}
	}
	t.Fatalf("no boot snapshot among %+v", all)
	return api.Snapshot{}
}

// copied is another host with all that the shared one has sealed, and none of its
// machines. The caller is alone.
func copied(t *testing.T) *harness.Daemon {
	t.Helper()
	data, err := os.MkdirTemp(filepath.Dir(host.Data), "copy-") //nolint:usetesting // shorter, or elsewhere than its directory
	if err != nil {
		t.Fatal(err)
	}
	run, err := os.MkdirTemp("/tmp", "dfc") //nolint:usetesting // shorter, or elsewhere than its directory
	if err != nil {
		t.Fatal(err)
	}
	port, err := harness.FreePort(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := &harness.Daemon{Bin: host.Bin, Data: data, Run: run, Address: fmt.Sprintf("127.0.0.1:%d", port)}
	t.Cleanup(d.Remove)
	host.Stop() // a database that nobody writes can be copied
	for _, argv := range [][]string{
		{"chmod", "711", data, run},
		{"cp", "-a", "--sparse=always", filepath.Join(host.Data, "templates"), filepath.Join(host.Data, "deskfork.db"), filepath.Join(host.Data, "images"), filepath.Join(host.Data, "token"), data},
	} {
		if out, cerr := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); cerr != nil {
			t.Errorf("%v: %v\n%s", argv, cerr, out)
		}
	}
	if err := host.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	if err := d.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		d.Stop()
		for _, pid := range pidsOf(t, run+"/") {
			t.Errorf("a machine of the copied host runs on: %s", pid)
			kill(t, pid)
		}
	})
	return d
}
