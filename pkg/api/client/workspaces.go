package client

import (
	"context"
	"net/http"

	"github.com/deskfork/deskfork/pkg/api"
)

// Workspaces lists, clones and checks workspaces. Desktop.Checkpoint adds to one,
// a desktop that is created with one begins with its files.
type Workspaces struct{ c *Client }

// List lists the project's workspaces by name.
func (w *Workspaces) List(ctx context.Context) ([]api.Workspace, error) {
	list, err := fetch[api.WorkspaceList](ctx, w.c, call{path: "/v1/workspaces"})
	return list.Workspaces, err
}

// Log lists what was published in a workspace, newest first.
func (w *Workspaces) Log(ctx context.Context, ref string) ([]api.Checkpoint, error) {
	list, err := fetch[api.CheckpointList](ctx, w.c, call{path: "/v1/workspaces/" + seg(ref) + "/checkpoints"})
	return list.Checkpoints, err
}

// Clone makes a workspace that begins with a checkpoint of another one.
func (w *Workspaces) Clone(ctx context.Context, ref string, req api.CloneWorkspace) (api.Workspace, error) {
	return fetch[api.Workspace](ctx, w.c, call{method: http.MethodPost, path: "/v1/workspaces/" + seg(ref) + "/clone", json: req})
}

// Verify reads all of a checkpoint, W or W@CHECKPOINT, in the store.
func (w *Workspaces) Verify(ctx context.Context, ref string) (api.Verified, error) {
	return fetch[api.Verified](ctx, w.c, call{method: http.MethodPost, path: "/v1/workspaces/" + seg(ref) + "/verify", same: true})
}

// Prune removes checkpoints of all projects; it needs the scope admin.
func (w *Workspaces) Prune(ctx context.Context, req api.PruneWorkspaces) (api.Pruned, error) {
	return fetch[api.Pruned](ctx, w.c, call{method: http.MethodPost, path: "/v1/prune-workspaces", json: req, same: true})
}

// Checkpoint publishes the present instant of the desktop's /workspace.
func (d *handle) Checkpoint(ctx context.Context, req api.CreateCheckpoint) (api.Checkpoint, error) {
	return fetch[api.Checkpoint](ctx, d.c, call{method: http.MethodPost, path: d.path("/checkpoints"), json: req, keyed: true})
}
