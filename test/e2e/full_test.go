//go:build integration

package e2e_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/test/harness"
)

// TestDiskFullInImageBuild builds an image in a data directory whose disk fills
// in the middle: the error has its code and stage, nothing looks finished, and
// the space is there again.
func TestDiskFullInImageBuild(t *testing.T) {
	beside(t)
	if os.Geteuid() != 0 {
		t.Fatal("mounting a small file system needs root")
	}
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=1120m,mode=711"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(data, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	d := &harness.Daemon{Bin: host.Bin, Data: data, Address: host.Address}
	res := run(t, d, command{args: []string{"--json", "image", "build", "testdata/full"}})
	var e api.Error
	if err := json.Unmarshal(lastLine(res.errs), &e); err != nil {
		t.Fatalf("%v: %s", err, res.errs)
	}
	if e.Code != api.CodeNoSpace || e.Stage != "customise" || res.status != api.CodeNoSpace.ExitStatus() {
		t.Errorf("exit %d, %+v", res.status, e)
	}
	left, err := filepath.Glob(filepath.Join(data, "images", "[^.]*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(data, &st); err != nil || int64(st.Bfree)*st.Bsize < 900<<20 {
		t.Errorf("%d MiB free afterwards, %v", int64(st.Bfree)*st.Bsize>>20, err)
	}
}
