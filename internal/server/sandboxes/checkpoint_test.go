package sandboxes_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
)

// sealed asks to keep a sandbox.
func (d *door) sealed(s api.Sandbox, header ...string) answer {
	d.t.Helper()
	return d.call("POST", "/v1/runtime-checkpoints", api.SealSandbox{
		RuntimeID: s.RuntimeID, Kind: "process", WorkspaceRevision: 7, HarnessVersion: "h", RuntimeIdentity: "i",
	}, header...)
}

// from asks for a sandbox that begins in a checkpoint.
func from(generation int64, c api.SandboxCheckpoint) api.CreateSandbox {
	req := asked(generation)
	req.From = &c
	return req
}

// snapshots are the ids of what is kept.
func (d *door) snapshots() (ids []string) {
	d.t.Helper()
	list, err := d.host.Host.Snapshots.List(d.t.Context(), hosttest.Project)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, s := range list {
		if strings.HasPrefix(s.Name, "rl-") {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// until waits for something that must come.
func until(t *testing.T, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// TestSandboxBeginsInACheckpoint of an older generation of its session, and of no
// other; what nobody can need any more is removed.
func TestSandboxBeginsInACheckpoint(t *testing.T) {
	d := newDesktopDoor(t)
	var is api.RuntimeDescriptor
	d.call("GET", "/v1/descriptor", nil).into(t, 200, &is)
	if kinds := is.Capabilities.Sandbox.RuntimeCheckpoints; len(kinds) != 1 || kinds[0] != "process" {
		t.Errorf("described as %q", kinds)
	}
	one := d.create(1)
	var c, again api.SandboxCheckpoint
	d.sealed(one).into(t, 201, &c)
	d.sealed(one).into(t, 201, &again)
	if c != again || c.SourceRuntimeID != one.RuntimeID || c.SessionID != scope.Session || c.WorkGeneration != 1 || c.WorkspaceRevision != 7 || c.HarnessVersion != "h" || c.RuntimeIdentity != "i" {
		t.Errorf("%+v, again %+v", c, again)
	}
	var two api.Sandbox
	d.call("POST", "/v1/sandboxes", from(2, c)).into(t, 201, &two)
	v, err := d.host.Host.Desktop(t.Context(), hosttest.Project, two.Lease.Metadata["desktop"].(string))
	if err != nil || v.Origin != api.OriginSnapshot || v.Snapshot != c.CheckpointID || two.RuntimeID == one.RuntimeID {
		t.Errorf("%+v is of %q, %v", two, v.Snapshot, err)
	}
	d.sealed(one).fails(t, 409, api.CodeStale)
	d.sealed(two, api.HeaderGeneration, "1").fails(t, 409, api.CodeStale)

	other := from(3, c)
	other.Scope.Session = "another"
	d.call("POST", "/v1/sandboxes", other).fails(t, 409, api.CodeConflict)
	claimed := c
	claimed.SessionID = "another"
	other.From = &claimed
	if a := d.call("POST", "/v1/sandboxes", other); a.status < 400 {
		t.Errorf("another session's under its own name: %d, %s", a.status, a.body)
	}
	claimed = c
	claimed.WorkGeneration = 3
	d.call("POST", "/v1/sandboxes", from(3, claimed)).fails(t, 409, api.CodePrecondition)
	d.call("DELETE", "/v1/runtime-checkpoints/"+c.CheckpointID, nil).into(t, 204, nil)
	d.call("DELETE", "/v1/runtime-checkpoints/"+c.CheckpointID, nil).into(t, 204, nil)
	d.call("POST", "/v1/sandboxes", from(3, c)).fails(t, 404, api.CodeNotFound)
	last := d.create(3) // without one
	for g := int64(3); g < 7; g++ {
		d.sealed(last).into(t, 201, &c)
		last = d.create(g + 1)
	}
	if ids := d.snapshots(); len(ids) != 3 {
		t.Errorf("kept: %q", ids)
	}
	d.call("POST", "/v1/sandboxes", from(8, c)).into(t, 201, &last)
	if ids := d.snapshots(); len(ids) != 1 || ids[0] != c.CheckpointID {
		t.Errorf("kept: %q, gone on from %s", ids, c.CheckpointID)
	}
	snap, err := d.host.Host.Snapshots.Create(t.Context(), hosttest.Project, last.Lease.Metadata["desktop"].(string), api.CreateSnapshot{Name: "own"}, "")
	if err != nil {
		t.Fatal(err)
	}
	d.call("DELETE", "/v1/runtime-checkpoints/"+snap.ID, nil).fails(t, 409, api.CodeConflict)
}

// TestNoCheckpointWithSecrets: while a process with an environment lives, or something
// that it has started, or nobody knows, nothing is kept.
func TestNoCheckpointWithSecrets(t *testing.T) {
	d := newDesktopDoor(t)
	dir := t.TempDir()
	one := d.create(1)
	at := "/v1/sandboxes/" + one.RuntimeID
	m := spawn("p", "sh", "-c", `echo $TOKEN; (while test ! -e "$1/end"; do sleep 0.02; done) > /dev/null 2>&1 < /dev/null & cat`, "sh", dir)
	m.Env = map[string]string{"TOKEN": "hush"}
	c, _ := d.talk(at, m)
	if got := c.out(5); got != "hush\n" {
		t.Errorf("it says %q", got)
	}
	twice, _ := d.talk(at, m) // a repeated spawn starts nothing
	d.sealed(one).fails(t, 409, api.CodePrecondition)
	twice.say(api.ProcessMessage{Type: "stdin_close"})
	if e := twice.until("exit"); e.Code == nil || *e.Code != 0 {
		t.Errorf("ended %+v", e)
	}
	twice.bye()
	if a := d.sealed(one); a.status != 409 || !strings.Contains(string(a.body), "live on") {
		t.Errorf("with what it has started: %d, %s", a.status, a.body)
	}
	if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "it is kept when nothing lives", func() error {
		if a := d.sealed(one); a.status != 201 {
			return errors.New(string(a.body))
		}
		return nil
	})
	plain, _ := d.talk(at, spawn("plain", "cat"))
	plain.write("x")
	plain.out(1)
	m.ID, m.Args = "q", []string{"-c", "echo $TOKEN"}
	c, _ = d.talk(at, m)
	c.until("exit")
	c.bye()
	two := d.create(2)
	d.sealed(two).into(t, 201, nil)
}
