package client

import (
	"context"
	"net/http"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Workspaces lists, clones and checks workspaces. Desktop.Checkpoint adds to one,
// a desktop that is created with one begins with its files.
type Workspaces struct{ c *Client }

// List lists the project's workspaces by name.
func (w *Workspaces) List(ctx context.Context) ([]api.Workspace, error) {
	list, err := wire.Fetch[api.WorkspaceList](ctx, w.c.server, wire.Call{Path: "/v1/workspaces"})
	return list.Workspaces, err
}

// Log lists what was published in a workspace, newest first.
func (w *Workspaces) Log(ctx context.Context, ref string) ([]api.Checkpoint, error) {
	list, err := wire.Fetch[api.CheckpointList](ctx, w.c.server, wire.Call{Path: "/v1/workspaces/" + wire.Seg(ref) + "/checkpoints"})
	return list.Checkpoints, err
}

// Clone makes a workspace that begins with a checkpoint of another one.
func (w *Workspaces) Clone(ctx context.Context, ref string, req api.CloneWorkspace) (api.Workspace, error) {
	return wire.Fetch[api.Workspace](ctx, w.c.server, wire.Call{Method: http.MethodPost, Path: "/v1/workspaces/" + wire.Seg(ref) + "/clone", JSON: req})
}

// Verify reads all of a checkpoint, W or W@CHECKPOINT, in the store.
func (w *Workspaces) Verify(ctx context.Context, ref string) (api.Verified, error) {
	return wire.Fetch[api.Verified](ctx, w.c.server, wire.Call{Method: http.MethodPost, Path: "/v1/workspaces/" + wire.Seg(ref) + "/verify", Same: true})
}

// Prune removes checkpoints of all projects; it needs the scope admin.
func (w *Workspaces) Prune(ctx context.Context, req api.PruneWorkspaces) (api.Pruned, error) {
	return wire.Fetch[api.Pruned](ctx, w.c.server, wire.Call{Method: http.MethodPost, Path: "/v1/prune-workspaces", JSON: req, Same: true})
}

// Checkpoint publishes the present instant of the desktop's /workspace.
func (d *handle) Checkpoint(ctx context.Context, req api.CreateCheckpoint) (api.Checkpoint, error) {
	return wire.Fetch[api.Checkpoint](ctx, d.c.server, wire.Call{Method: http.MethodPost, Path: d.path("/checkpoints"), JSON: req, Keyed: true})
}
