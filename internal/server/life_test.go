package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
	"github.com/deskfork/deskfork/pkg/vm"
)

func TestForkRoute(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	one := d.Create(api.CreateDesktop{Name: "one"})
	ctx := t.Context()
	children, err := d.Client.Desktop("one").Fork(ctx, api.Fork{Count: 2, Name: "try"}, client.Until(api.StageDrawn))
	if err != nil || len(children) != 2 {
		t.Fatalf("%+v, %v", children, err)
	}
	for i, c := range children {
		v := c.Info
		if v.State != api.StateReady || v.Origin != api.OriginFork || v.Parent != one.ID || v.Name != []string{"try-1", "try-2"}[i] {
			t.Errorf("child %d is %+v", i, v)
		}
		if res, err := c.Exec(ctx, "printf", "here"); err != nil || string(res.Stdout) != "here" {
			t.Errorf("child %d: %+v, %v", i, res, err)
		}
	}

	said := make([]api.DesktopList, 2)
	for i := range said { // the same key makes the same children
		resp := d.do(t, "POST", "/v1/desktops/one/fork", `{"count":2}`, api.HeaderIdempotencyKey, "k1")
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("status %d: %+v", resp.StatusCode, problemOf(t, resp))
		}
		if err := json.NewDecoder(resp.Body).Decode(&said[i]); err != nil || len(said[i].Desktops) != 2 {
			t.Fatalf("%+v, %v", said[i], err)
		}
	}
	if said[0].Desktops[1].ID != said[1].Desktops[1].ID {
		t.Errorf("the same key made %+v and %+v", said[0], said[1])
	}
	for _, v := range said[0].Desktops {
		if _, err := d.Client.Desktop(v.ID).Wait(ctx, api.StageDrawn, 0); err != nil {
			t.Error(err)
		}
	}
}

// TestForkOfWhichOneFails: the problem says which, and names all that there are.
func TestForkOfWhichOneFails(t *testing.T) {
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	var clones int
	d.Provider.OnClone(func(context.Context, vm.CloneSpec) error {
		clones++
		return errors.New("no room for it")
	})
	_, err := d.Client.Desktop("one").Fork(t.Context(), api.Fork{Name: "sick"}, client.Until(api.StageDrawn))
	problem, ok := errors.AsType[*api.Error](err)
	if !ok || clones == 0 || problem.Code != api.CodeMachineFailed || problem.Stage != string(api.StageMachine) {
		t.Fatalf("after %d clones: %+v", clones, err)
	}
	sick, err := d.Client.Desktop("sick").Get(t.Context())
	if err != nil || sick.State != api.StateFailed {
		t.Fatalf("%+v, %v", sick, err)
	}
	if !strings.Contains(problem.Detail, "child "+sick.ID) || !strings.Contains(problem.Hint, "the children are "+sick.ID) {
		t.Errorf("the problem is %+v", problem)
	}
}

func TestPowerRoutes(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	one := d.Create(api.CreateDesktop{Name: "one"})
	desk, ctx := d.Client.Desktop("one"), t.Context()
	if _, err := desk.Snapshot(ctx, "base"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		do     func() (api.Desktop, error)
		state  api.DesktopState
		origin api.Origin
		fresh  bool // a new incarnation
	}{
		{"pause", func() (api.Desktop, error) { return desk.Pause(ctx) }, api.StatePaused, one.Origin, false},
		{"pause again", func() (api.Desktop, error) { return desk.Pause(ctx) }, api.StatePaused, one.Origin, false},
		{"resume", func() (api.Desktop, error) { return desk.Resume(ctx) }, api.StateReady, one.Origin, false},
		{"suspend", func() (api.Desktop, error) { return desk.Suspend(ctx) }, api.StateSuspended, one.Origin, false},
		{"resume from disk", func() (api.Desktop, error) { return desk.Resume(ctx) }, api.StateReady, api.OriginResume, true},
		{"restore", func() (api.Desktop, error) { return desk.Restore(ctx, "base") }, api.StateReady, api.OriginRestore, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, err := desk.Get(ctx)
			if err != nil {
				t.Fatal(err)
			}
			v, err := tt.do()
			if err != nil {
				t.Fatal(err)
			}
			if v.ID != one.ID || v.State != tt.state || v.Origin != tt.origin || (v.Incarnation != before.Incarnation) != tt.fresh {
				t.Errorf("desktop is %+v", v)
			}
			list, err := d.Client.Desktops().List(ctx, client.Filter{State: tt.state})
			if err != nil || len(list) != 1 {
				t.Fatalf("in state %s are %+v, %v", tt.state, list, err)
			}
			if tt.state == api.StateReady && list[0].DiskPrivate == 0 {
				t.Error("the list does not say what it takes")
			}
		})
	}
	if res, err := desk.Exec(ctx, "printf", "here"); err != nil || string(res.Stdout) != "here" {
		t.Errorf("at the end: %+v, %v", res, err)
	}
	p := api.Policy{TTLS: 3600, IdleS: 60, IdleAction: api.IdlePause, IdleCPU: 5}
	v, err := desk.SetPolicy(ctx, p)
	if err != nil || v.Expires.IsZero() {
		t.Errorf("expires %v, %v", v.Expires, err)
	}
	if diff := cmp.Diff(p, v.Policy); diff != "" {
		t.Error(diff)
	}
}

func TestSnapshotRoutes(t *testing.T) {
	d := newDoor(t)
	one := d.Create(api.CreateDesktop{Name: "one"})
	ctx := t.Context()
	resp := d.do(t, "POST", "/v1/desktops/one/snapshots", `{"name":"base"}`)
	var made api.Snapshot
	if err := json.NewDecoder(resp.Body).Decode(&made); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	if resp.Header.Get("Location") != "/v1/snapshots/"+made.ID || made.Desktop != one.ID || made.Name != "base" || made.Kind != "snapshot" {
		t.Errorf("made %+v at %s", made, resp.Header.Get("Location"))
	}
	for _, ref := range []string{"base", made.ID} {
		if got, err := d.Client.Snapshots().Get(ctx, ref); err != nil || got.ID != made.ID {
			t.Errorf("%s is %+v, %v", ref, got, err)
		}
	}

	resp = d.do(t, "GET", "/v1/snapshots/base/export", "")
	file, err := io.ReadAll(resp.Body)
	if err != nil || len(file) == 0 {
		t.Fatalf("%d bytes, %v", len(file), err)
	}
	want := map[string]string{"Content-Type": "application/zstd", "Content-Disposition": "attachment; filename=base.zst", "Cache-Control": "no-store"}
	for k, v := range want {
		if got := resp.Header.Get(k); got != v {
			t.Errorf("%s is %q, want %q", k, got, v)
		}
	}
	reader := "Bearer " + d.tokenOf(t, "default", "read")
	if resp := d.do(t, "GET", "/v1/snapshots/base/export", "", "Authorization", reader); resp.StatusCode != http.StatusForbidden {
		t.Errorf("who may only look gets memory: status %d", resp.StatusCode)
	}

	if _, err := d.Client.Snapshots().Import(ctx, "copy", bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	twin, err := d.Client.Desktops().Create(ctx, api.CreateDesktop{Snapshot: "copy"}, client.Until(api.StageDrawn))
	if err != nil || twin.Info.Origin != api.OriginSnapshot {
		t.Fatalf("%+v, %v", twin, err)
	}
	if _, err := d.Client.Snapshots().Import(ctx, "half", bytes.NewReader(file[:len(file)/2])); err == nil {
		t.Error("half a snapshot is taken for a whole one")
	}
	for _, name := range []string{"base", "copy"} {
		if err := d.Client.Snapshots().Remove(ctx, name); err != nil {
			t.Error(err)
		}
	}
	if res, err := twin.Exec(ctx, "printf", "here"); err != nil || string(res.Stdout) != "here" {
		t.Errorf("a desktop whose snapshot is gone: %+v, %v", res, err)
	}
	list, err := d.Client.Snapshots().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Kind == "snapshot" {
			t.Errorf("left is %+v", s)
		}
	}
}

// TestTreeRoute: parents come before their children, those that are gone too, and
// another project's are not there.
func TestTreeRoute(t *testing.T) {
	d := newDoor(t)
	one := d.Create(api.CreateDesktop{Name: "one"})
	ctx := t.Context()
	children, err := d.Client.Desktop("one").Fork(ctx, api.Fork{Name: "child"}, client.Until(api.StageDrawn))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := children[0].Snapshot(ctx, "kept"); err != nil {
		t.Fatal(err)
	}
	if err := d.Client.Desktop("one").Delete(ctx); err != nil {
		t.Fatal(err)
	}
	tree, err := d.Client.Tree(ctx)
	if err != nil {
		t.Fatal(err)
	}
	seen, named := map[string]bool{}, map[string]api.Node{}
	for _, n := range tree.Nodes {
		if n.Parent != "" && !seen[n.Parent] {
			t.Errorf("%+v comes before its parent", n)
		}
		seen[n.ID], named[n.Name] = true, n
	}
	if n := named["one"]; n.ID != one.ID || !n.Gone || n.Kind != "desktop" {
		t.Errorf("one is %+v", n)
	}
	if n := named["child"]; n.Parent != one.ID || n.Gone || n.State != string(api.StateReady) || n.DiskPrivate == 0 {
		t.Errorf("child is %+v", n)
	}
	if n := named["kept"]; n.Kind != "snapshot" || n.Parent != children[0].Ref() {
		t.Errorf("kept is %+v", n)
	}
	other, err := client.New(d.HTTP.URL, client.WithToken(d.tokenOf(t, "elsewhere", "read")))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := other.Tree(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range foreign.Nodes { // images and their boot snapshots are the host's
		if n.Kind == "desktop" || n.ID == named["kept"].ID {
			t.Errorf("another project sees %+v", n)
		}
	}
}

func TestProblemsOfLife(t *testing.T) {
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one"})
	if _, err := d.Client.Desktop("one").Snapshot(t.Context(), "base"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		code                     api.Code
		place                    string
	}{
		{"children of nobody", "POST", "/v1/desktops/nope/fork", `{}`, 404, api.CodeNotFound, ""},
		{"too many children", "POST", "/v1/desktops/one/fork", `{"count":201}`, 422, api.CodeInvalid, "body.count"},
		{"bad name of a child", "POST", "/v1/desktops/one/fork", `{"name":"A b"}`, 422, api.CodeInvalid, "body.name"},
		{"taken name of a child", "POST", "/v1/desktops/one/fork", `{"name":"one"}`, 409, api.CodeConflict, ""},
		{"bad wait of a fork", "POST", "/v1/desktops/one/fork?timeout=soon", `{}`, 422, api.CodeInvalid, "query.timeout"},
		{"bad stage of a fork", "POST", "/v1/desktops/one/fork?wait=soon", `{}`, 422, api.CodeInvalid, "query.wait"},
		{"pause of nobody", "POST", "/v1/desktops/nope/pause", "", 404, api.CodeNotFound, ""},
		{"restore to nothing", "POST", "/v1/desktops/one/restore", `{"snapshot":"nope"}`, 404, api.CodeNotFound, ""},
		{"restore to no name", "POST", "/v1/desktops/one/restore", `{"snapshot":""}`, 422, api.CodeInvalid, "body.snapshot"},
		{"bad action", "PUT", "/v1/desktops/one/policy", `{"idle_action":"explode"}`, 422, api.CodeInvalid, "body.idle_action"},
		{"bad time to live", "PUT", "/v1/desktops/one/policy", `{"ttl_s":-1}`, 422, api.CodeInvalid, "body.ttl_s"},
		{"snapshot without a name", "POST", "/v1/desktops/one/snapshots", `{}`, 422, api.CodeInvalid, "body"},
		{"bad name of a snapshot", "POST", "/v1/desktops/one/snapshots", `{"name":"-"}`, 422, api.CodeInvalid, "body.name"},
		{"taken name of a snapshot", "POST", "/v1/desktops/one/snapshots", `{"name":"base"}`, 409, api.CodeConflict, ""},
		{"no snapshot", "GET", "/v1/snapshots/nope", "", 404, api.CodeNotFound, ""},
		{"export of nothing", "GET", "/v1/snapshots/nope/export", "", 404, api.CodeNotFound, ""},
		{"removal of nothing", "DELETE", "/v1/snapshots/nope", "", 404, api.CodeNotFound, ""},
		{"import without a name", "POST", "/v1/snapshots/import", "x", 422, api.CodeInvalid, "query.name"},
		{"import under a bad name", "POST", "/v1/snapshots/import?name=A", "x", 422, api.CodeInvalid, "query.name"},
		{"clone of nothing", "POST", "/v1/desktops", `{"snapshot":"nope"}`, 404, api.CodeNotFound, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp := d.do(t, tt.method, tt.path, tt.body)
			e := problemOf(t, resp)
			if resp.StatusCode != tt.status || e.Code != tt.code {
				t.Errorf("status %d, want %d; %+v", resp.StatusCode, tt.status, e)
			}
			if tt.place != "" && (len(e.Errors) == 0 || e.Errors[0].Location != tt.place) {
				t.Errorf("faults are %+v, want one at %s", e.Errors, tt.place)
			}
		})
	}
}
