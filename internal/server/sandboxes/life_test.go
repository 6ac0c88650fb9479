package sandboxes_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session/sessiontest/world"
)

func TestSandboxLife(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	var is api.RuntimeDescriptor
	d.call("GET", "/v1/descriptor", nil).into(t, 200, &is)
	if is.Provider != provider || is.Capabilities.Sandbox.SuspendResume != "supported" || !slices.Contains(is.Capabilities.Workspace, "retained_runtime") ||
		is.Capabilities.Sandbox.RuntimeCheckpoints == nil || !slices.Equal(is.Placements, []string{"driver_service"}) {
		t.Errorf("described as %+v", is)
	}
	one := d.create(1)
	at := "/v1/sandboxes/" + one.RuntimeID
	if one.State != "running" || one.Expires == nil || one.Scope != scope || one.Lease.RuntimeID != one.Incarnation {
		t.Errorf("made %+v", one)
	}
	if again := d.create(1); again.RuntimeID != one.RuntimeID {
		t.Errorf("again it is %s", again.RuntimeID)
	}
	var renewed api.Sandbox
	d.call("POST", at+"/lease", api.RenewLease{TTLMS: 120_000}, api.HeaderGeneration, "1").into(t, 200, &renewed)
	if !renewed.Expires.After(*one.Expires) {
		t.Errorf("the lease holds until %s, before until %s", renewed.Expires, one.Expires)
	}
	var handle api.SandboxHandle
	for range 2 {
		d.call("POST", at+"/suspend", api.SuspendSandbox{}).into(t, 200, &handle)
	}
	if handle.Scope != "runtime" || handle.Kind != "memory" || handle.SourceRuntimeID != one.RuntimeID {
		t.Errorf("handle %+v", handle)
	}
	next := asked(2)
	next.Workspace = api.SandboxWorkspace{Strategy: "retained_runtime", Restore: &handle}
	var two api.Sandbox
	d.call("POST", "/v1/sandboxes", next).into(t, 201, &two)
	if e := d.call("POST", "/v1/sandboxes", asked(1)).fails(t, 409, api.CodeStale); e.Generation != 2 {
		t.Errorf("the newest is said to be %d", e.Generation)
	}
	at = "/v1/sandboxes/" + two.RuntimeID
	d.call("POST", at+"/lease", api.RenewLease{}, api.HeaderGeneration, "1").fails(t, 409, api.CodeStale)
	d.call("POST", at+"/exec", api.SandboxExec{Command: "true"}, api.HeaderGeneration, "1").fails(t, 409, api.CodeStale)
	d.call("PUT", at+"/files?path=/tmp/x", []byte("x"), api.HeaderGeneration, "1").fails(t, 409, api.CodeStale)
	d.call("DELETE", at, nil, api.HeaderGeneration, "1").fails(t, 409, api.CodeStale)

	reap := api.ReapSandbox{Scope: scope, Lease: two.Lease}
	reap.Lease.Provider = "other"
	d.call("POST", "/v1/reap", reap).fails(t, 409, api.CodeConflict)
	reap.Lease = one.Lease // an old incarnation's
	d.call("POST", "/v1/reap", reap).into(t, 204, nil)
	d.call("GET", at, nil).into(t, 200, &two)
	for range 2 {
		d.call("DELETE", at+"?reason=completed", nil, api.HeaderGeneration, "2").into(t, 204, nil)
	}
	d.call("GET", at, nil).fails(t, 404, api.CodeNotFound)
	d.call("POST", at+"/lease", api.RenewLease{}).fails(t, 404, api.CodeNotFound)
	reap.Lease = api.SandboxLease{Provider: handle.Provider, RuntimeID: handle.CheckpointID}
	for range 2 {
		d.call("POST", "/v1/reap", reap).into(t, 204, nil)
	}
	if left := d.world.Machines(); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

func TestSandboxRefusals(t *testing.T) {
	d := newDoor(t)
	empty := asked(1)
	empty.Artifact.Reference = ""
	none := asked(1)
	none.Artifact.Reference = "none"
	portable := asked(1)
	portable.Workspace = api.SandboxWorkspace{Strategy: "retained_runtime", Restore: &api.SandboxHandle{Provider: provider, CheckpointID: "c", Kind: "memory", Scope: "portable"}}
	foreign := asked(1)
	foreign.Workspace = api.SandboxWorkspace{Strategy: "retained_runtime", Restore: &api.SandboxHandle{Provider: "other", CheckpointID: "c", Kind: "memory", Scope: "runtime"}}
	odd := asked(1)
	odd.Workspace.Strategy = "durable_mount"
	for name, tt := range map[string]struct {
		body   any
		status int
		code   api.Code
	}{
		"no artifact":          {empty, 422, api.CodeInvalid},
		"unknown image":        {none, 404, api.CodeNotFound},
		"no generation":        {asked(0), 422, api.CodeInvalid},
		"portable handle":      {portable, 501, api.CodeUnsupported},
		"foreign handle":       {foreign, 409, api.CodeConflict},
		"strategy not offered": {odd, 422, api.CodeInvalid},
		"unknown member":       {map[string]any{"scope": scope, "generation": 1, "egressBindingId": "x"}, 422, api.CodeInvalid},
		"no JSON":              {[]byte("{"), 422, api.CodeInvalid},
	} {
		t.Run(name, func(t *testing.T) { d.call("POST", "/v1/sandboxes", tt.body).fails(t, tt.status, tt.code) })
	}
	if n := d.world.Count("sandbox.acquire"); n != 0 {
		t.Errorf("%d machines were tried", n)
	}
	d.call("GET", "/v1/sandboxes/x", nil, "Authorization", "").fails(t, 401, api.CodeUnauthorized)
	d.call("GET", "/v1/sandboxes/x", nil).fails(t, 404, api.CodeNotFound)
	d.call("GET", "/v1/sandboxes/x/processes", nil).fails(t, 404, api.CodeNotFound)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	d.call("GET", at+"/processes", nil).fails(t, 426, api.CodeInvalid)
	for _, path := range []string{"relative", "/a/../b", "/a/./b", "//a", "/a%00b", ""} {
		d.call("GET", at+"/files?path="+path, nil).fails(t, 422, api.CodeInvalid)
	}
	d.call("GET", at+"/files?path=/no/such", nil).fails(t, 404, api.CodeNotFound)
	d.call("POST", at+"/exec", api.SandboxExec{}).fails(t, 422, api.CodeInvalid)
	d.world.Before("sandbox.terminate", world.Fail(errors.New("stuck")))
	d.call("DELETE", at, nil).fails(t, 500, api.CodeInternal)
	d.world.Before("sandbox.terminate", nil)
	d.call("DELETE", at, nil).into(t, 204, nil)
}

func TestSandboxFiles(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID
	dir := t.TempDir()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for name, content := range map[string][]byte{
		"all values": every, "empty": {}, "made/on/the way": []byte("x"), "ünï \"' \n &?#%": []byte("odd name"),
		"large": bytes.Repeat(every, 20000),
	} {
		path := "?path=" + url.QueryEscape(dir+"/"+name)
		var info api.FileInfo
		d.call("PUT", at+"/files"+path+"&mode=0600", content).into(t, 201, &info)
		got := d.call("GET", at+"/files"+path, nil)
		if got.status != 200 || !bytes.Equal(got.body, content) || info.Size != int64(len(content)) || info.Mode != 0o600 {
			t.Errorf("%q: status %d, %d of %d bytes, %+v", name, got.status, len(got.body), len(content), info)
		}
		head := d.call(http.MethodHead, at+"/files"+path, nil)
		if head.status != 200 || len(content) > 0 && head.header.Get("Content-Length") == "" {
			t.Errorf("%q: HEAD says %d, %v", name, head.status, head.header)
		}
	}
	var list api.FileList
	d.call("POST", at+"/files:list", api.SandboxList{Path: dir}).into(t, 200, &list)
	if len(list.Entries) != 5 {
		t.Errorf("listed %+v", list.Entries)
	}
	d.call("POST", at+"/files:list", api.SandboxList{Path: dir, Recursive: true}).into(t, 200, &list)
	if len(list.Entries) != 7 {
		t.Errorf("listed %d", len(list.Entries))
	}
	d.call("GET", at+"/files?path="+url.QueryEscape(dir), nil).fails(t, 422, api.CodeInvalid)
}

func TestSandboxExec(t *testing.T) {
	d := newDoor(t)
	at := "/v1/sandboxes/" + d.create(1).RuntimeID + "/exec"
	for name, tt := range map[string]struct {
		ask              api.SandboxExec
		out, err, signal string
		exit             int
	}{
		"streams":    {ask: api.SandboxExec{Command: "echo out; echo err >&2; exit 7"}, out: "out\n", err: "err\n", exit: 7},
		"argv":       {ask: api.SandboxExec{Argv: []string{"printf", "%s", "$A  b"}}, out: "$A  b"},
		"env, cwd":   {ask: api.SandboxExec{Command: "echo $A; pwd", Env: map[string]string{"A": "ä"}, Cwd: "/usr"}, out: "ä\n/usr\n"},
		"signal":     {ask: api.SandboxExec{Command: "kill -KILL $$"}, signal: "SIGKILL", exit: 137},
		"no program": {ask: api.SandboxExec{Argv: []string{"no-such-program"}}, exit: 127},
		"probe":      {ask: api.SandboxExec{Command: "test -x /bin/sh && echo __OPENMA_RUNTIME_READY__"}, out: "__OPENMA_RUNTIME_READY__\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var ran api.SandboxRan
			d.call("POST", at, tt.ask).into(t, 200, &ran)
			if string(ran.Stdout) != tt.out || (tt.exit != 127 && string(ran.Stderr) != tt.err) || ran.ExitCode != tt.exit || ran.Signal != tt.signal {
				t.Errorf("ran %q, %q, %+v", ran.Stdout, ran.Stderr, ran)
			}
		})
	}
	t.Run("timeout", func(t *testing.T) {
		var ran api.SandboxRan
		d.call("POST", at, api.SandboxExec{Command: "sleep 1000", TimeoutMS: 100}).into(t, 200, &ran)
		if !ran.TimedOut {
			t.Errorf("ran %+v", ran)
		}
	})
	t.Run("once", func(t *testing.T) {
		file := t.TempDir() + "/n"
		for range 3 {
			var ran api.SandboxRan
			d.call("POST", at, api.SandboxExec{Command: "echo x >>" + file + "; cat " + file}, api.HeaderIdempotencyKey, "k").into(t, 200, &ran)
			if string(ran.Stdout) != "x\n" {
				t.Errorf("ran more than once: %q", ran.Stdout)
			}
		}
	})
}
