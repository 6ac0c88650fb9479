package server_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/deskfork/deskfork/internal/host/hosttest"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client"
)

// codeOf is what an error of the client says it is.
func codeOf(err error) api.Code {
	if e, ok := errors.AsType[*api.Error](err); ok {
		return e.Code
	}
	return ""
}

// TestWorkspaceRoutes takes a workspace through its life with the real client.
func TestWorkspaceRoutes(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one", WorkspaceMiB: 64})
	ctx, w := t.Context(), d.Client.Workspaces()
	made, err := d.Client.Desktop("one").Checkpoint(ctx, api.CreateCheckpoint{Workspace: "work"})
	if err != nil || !made.Frozen || made.Workspace != "work" {
		t.Fatalf("checkpoint %+v, %v", made, err)
	}
	list, err := w.List(ctx)
	if err != nil || len(list) != 1 || list[0].Published != made.Ref {
		t.Errorf("list %+v, %v", list, err)
	}
	log, err := w.Log(ctx, "work")
	if err != nil || len(log) != 1 || log[0] != made {
		t.Errorf("log %+v, %v", log, err)
	}
	if c, err := w.Clone(ctx, "work", api.CloneWorkspace{Name: "copy"}); err != nil || c.Published != made.Ref {
		t.Errorf("clone %+v, %v", c, err)
	}
	if _, err := w.Clone(ctx, "work", api.CloneWorkspace{Name: "copy"}); codeOf(err) != api.CodeConflict {
		t.Errorf("clone to a name that is taken: %v", err)
	}
	if v, err := w.Verify(ctx, "copy@"+made.Ref); err != nil || !v.OK {
		t.Errorf("verify %+v, %v", v, err)
	}
	if p, err := w.Prune(ctx, api.PruneWorkspaces{Last: 1}); err != nil || p.Kept != 1 || len(p.Dropped) != 0 {
		t.Errorf("prune %+v, %v", p, err)
	}
	again, err := d.Client.Desktops().Create(ctx, api.CreateDesktop{Image: "test", Workspace: "copy"}, client.Until(api.StageDrawn))
	if err != nil || again.Info.WorkspaceMiB != 64 {
		t.Errorf("restored %+v, %v", again, err)
	}
	for name, code := range map[string]api.Code{"none": api.CodeNotFound, "work@none": api.CodeNotFound} {
		_, err := d.Client.Desktops().Create(ctx, api.CreateDesktop{Image: "test", Workspace: name})
		if codeOf(err) != code || strings.Contains(err.Error(), "row") {
			t.Errorf("restore of %s: %v, want %s", name, err, code)
		}
	}
}

// TestArchiveRoutes: what is refused before a desktop is made, and that none is
// left of what fails later.
func TestArchiveRoutes(t *testing.T) {
	hosttest.NoLeaks(t)
	d := newDoor(t)
	d.Create(api.CreateDesktop{Name: "one", WorkspaceMiB: 64})
	ctx, w := t.Context(), d.Client.Workspaces()
	made, err := d.Client.Desktop("one").Checkpoint(ctx, api.CreateCheckpoint{Workspace: "work"})
	if err != nil {
		t.Fatal(err)
	}
	diff := func(a, b, image string) (err error) {
		for _, err = range w.Diff(ctx, a, b, image) {
			if err == nil {
				t.Error("a difference between the same")
			}
		}
		return err
	}
	put := func(name string, req api.ImportWorkspace) error {
		_, err := w.Import(ctx, name, req, strings.NewReader("x"))
		return err
	}
	for what, tc := range map[string]struct {
		err  error
		code api.Code
	}{
		"no workspace":    {w.Export(ctx, "none", "test", io.Discard), api.CodeNotFound},
		"no checkpoint":   {w.Export(ctx, "work@none", "test", io.Discard), api.CodeNotFound},
		"no image":        {w.Export(ctx, "work", "none", io.Discard), api.CodeNotFound},
		"no image named":  {w.Export(ctx, "work", "", io.Discard), api.CodeInvalid},
		"other workspace": {diff("work", "none", "test"), api.CodeNotFound},
		"none to compare": {diff("work", "", "test"), api.CodeInvalid},
		"the same":        {diff("work", "work@"+made.Ref, "test"), ""},
		"over another":    {put("work", api.ImportWorkspace{Image: "test"}), api.CodeConflict},
		"a bad name":      {put("-", api.ImportWorkspace{Image: "test"}), api.CodeInvalid},
		"a bad size":      {put("new", api.ImportWorkspace{Image: "test", SizeMiB: -1}), api.CodeInvalid},
		"no image to use": {put("new", api.ImportWorkspace{Image: "none"}), api.CodeNotFound},
	} {
		if codeOf(tc.err) != tc.code {
			t.Errorf("%s: %v, want %q", what, tc.err, tc.code)
		}
	}
	if resp := d.do(t, "HEAD", "/v1/workspaces/work/archive?image=test", ""); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != api.TarMIME {
		t.Errorf("HEAD: %d, %v", resp.StatusCode, resp.Header)
	}
	list, err := d.Client.Desktops().List(ctx, client.Filter{})
	if err != nil || len(list) != 1 {
		t.Errorf("desktops %+v, %v", list, err)
	}
}
