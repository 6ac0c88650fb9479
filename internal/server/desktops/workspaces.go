package desktops

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

type checkpointIn struct {
	route.InDesktop

	Key  string `header:"Idempotency-Key" doc:"Makes the call repeatable within 24 hours"`
	Body api.CreateCheckpoint
}

type workspaceRef struct {
	Workspace string `path:"workspace" maxLength:"200" doc:"Name or id"`
}

type checkpointRef struct {
	Workspace string `path:"workspace" maxLength:"200" doc:"Name or id, or workspace@checkpoint"`
}

type cloneIn struct {
	Workspace string `path:"workspace" maxLength:"200" doc:"Name or id"`
	Body      api.CloneWorkspace
}

func (d *desk) registerWorkspaces() {
	tags := []string{"workspaces"}
	route.Call(d.routes, huma.Operation{
		OperationID: "create-checkpoint", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/checkpoints", Tags: tags,
		Summary: "Publish the present instant of a desktop's /workspace", DefaultStatus: http.StatusCreated,
		Description: "The guest's file system stands still for a moment, and goes on while what has changed is stored. " +
			"It answers when all of it is in the store and the checkpoint counts.",
	}, route.Write.Long(), func(ctx context.Context, in *checkpointIn) (*route.Reply[api.Checkpoint], error) {
		c, err := d.host.Workspaces.Checkpoint(ctx, route.Project(ctx), in.Desktop, in.Body, in.Key)
		return &route.Reply[api.Checkpoint]{Body: c}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "list-workspaces", Method: http.MethodGet, Path: "/v1/workspaces", Tags: tags,
		Summary: "List the workspaces of the token's project by name",
	}, route.Read, func(ctx context.Context, _ *struct{}) (*route.Reply[api.WorkspaceList], error) {
		list, err := d.host.Workspaces.List(ctx, route.Project(ctx))
		return &route.Reply[api.WorkspaceList]{Body: api.WorkspaceList{Workspaces: list}}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "list-checkpoints", Method: http.MethodGet, Path: "/v1/workspaces/{workspace}/checkpoints", Tags: tags,
		Summary: "List what was published in a workspace, newest first",
	}, route.Read, func(ctx context.Context, in *workspaceRef) (*route.Reply[api.CheckpointList], error) {
		list, err := d.host.Workspaces.Log(ctx, route.Project(ctx), in.Workspace)
		return &route.Reply[api.CheckpointList]{Body: api.CheckpointList{Checkpoints: list}}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "clone-workspace", Method: http.MethodPost, Path: "/v1/workspaces/{workspace}/clone", Tags: tags,
		Summary: "Make a workspace that begins with a checkpoint of another one", DefaultStatus: http.StatusCreated,
	}, route.Write, func(ctx context.Context, in *cloneIn) (*route.Reply[api.Workspace], error) {
		w, err := d.host.Workspaces.Clone(ctx, route.Project(ctx), in.Workspace, in.Body)
		return &route.Reply[api.Workspace]{Body: w}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "verify-workspace", Method: http.MethodPost, Path: "/v1/workspaces/{workspace}/verify", Tags: tags,
		Summary: "Read all of a checkpoint in the store, and name what is missing or damaged",
	}, route.Read.Long(), func(ctx context.Context, in *checkpointRef) (*route.Reply[api.Verified], error) {
		v, err := d.host.Workspaces.Verify(ctx, route.Project(ctx), in.Workspace)
		return &route.Reply[api.Verified]{Body: v}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "prune-workspaces", Method: http.MethodPost, Path: "/v1/prune-workspaces", Tags: tags,
		Summary:     "Remove checkpoints that a policy does not keep, of all projects",
		Description: "Nothing goes that a workspace is at, or that a restore or a checkpoint in progress needs.",
	}, route.Admin.Long(), func(ctx context.Context, in *struct{ Body api.PruneWorkspaces }) (*route.Reply[api.Pruned], error) {
		p, err := d.host.Workspaces.Prune(ctx, in.Body)
		return &route.Reply[api.Pruned]{Body: p}, err
	})
}
