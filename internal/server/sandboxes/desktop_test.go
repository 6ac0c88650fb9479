package sandboxes_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

// TestLeasedDesktops: machines are desktops. What runs in one and lies on its disk is
// there in the one that goes on from it; a desktop that is gone behind the lease is
// lost, and one that is taken over is not reached under the old lease.
func TestLeasedDesktops(t *testing.T) {
	d := newDesktopDoor(t)
	dir := t.TempDir()
	one := d.create(1)
	at := "/v1/sandboxes/" + one.RuntimeID
	d.call("PUT", at+"/files?path="+dir+"/x", []byte("kept")).into(t, 201, nil)
	c, _ := d.talk(at, spawn("p", "cat"))
	c.write("ping")
	c.out(4)
	if text, err := json.Marshal(one); err != nil || strings.Contains(string(text), d.token) {
		t.Errorf("lease %s, %v", text, err)
	}
	if info, err := os.Stat(d.outputs); err != nil || !info.IsDir() {
		t.Errorf("the directory for outputs: %v", err)
	}
	var handle api.SandboxHandle
	d.call("POST", at+"/suspend", api.SuspendSandbox{}).into(t, 200, &handle)
	if strings.Contains(handle.CheckpointID, one.RuntimeID) == (handle.CheckpointID == one.RuntimeID) {
		t.Errorf("handle %+v of %s", handle, one.RuntimeID)
	}
	d.call("GET", at+"/files?path="+dir+"/x", nil).fails(t, 404, api.CodeNotFound)

	next := asked(2)
	next.Workspace = api.SandboxWorkspace{Strategy: "retained_runtime", Restore: &handle}
	var two api.Sandbox
	d.call("POST", "/v1/sandboxes", next).into(t, 201, &two)
	at = "/v1/sandboxes/" + two.RuntimeID
	if got := d.call("GET", at+"/files?path="+dir+"/x", nil); string(got.body) != "kept" {
		t.Errorf("the file says %q", got.body)
	}
	project, id := two.Lease.Metadata["project"], two.Lease.Metadata["desktop"]
	if project != hosttest.Project {
		t.Errorf("lease %+v", two.Lease)
	}
	if err := d.host.Host.Delete(t.Context(), hosttest.Project, id.(string)); err != nil {
		t.Fatal(err)
	}
	d.call("POST", at+"/lease", api.RenewLease{}).fails(t, 404, api.CodeNotFound)
	d.call("POST", "/v1/reap", api.ReapSandbox{Scope: scope, Lease: api.SandboxLease{Provider: handle.Provider, RuntimeID: handle.CheckpointID}}).into(t, 204, nil)
	if err := d.desk.Pass(t.Context()); err != nil {
		t.Error(err)
	}
	d.nothingLeft()
	wrong := asked(3)
	wrong.Artifact.Digest = "sha256:other"
	d.call("POST", "/v1/sandboxes", wrong).fails(t, 409, api.CodePrecondition)
	wrong.Artifact = api.SandboxArtifact{Type: "image", Reference: "no-such-image"}
	d.call("POST", "/v1/sandboxes", wrong).fails(t, 404, api.CodeNotFound)
}
