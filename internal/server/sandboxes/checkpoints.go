package sandboxes

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// Keeper keeps machines as they are.
type Keeper interface {
	Seal(ctx context.Context, by leases.Caller, runtime string, want session.RuntimeSeal) (session.RuntimeCheckpoint, error)
	Forget(ctx context.Context, project, id string) error
}

type sealIn struct {
	Fenced

	Body api.SealSandbox
}

type forgetIn struct {
	Checkpoint string `path:"checkpoint" maxLength:"256"`
}

func (d *door) registerCheckpoints() {
	route.Call(d.routes, huma.Operation{
		OperationID: "create-runtime-checkpoint", Method: http.MethodPost, Path: "/v1/runtime-checkpoints", Tags: tags, DefaultStatus: http.StatusCreated,
		Summary: "Keep a sandbox as it is, for a later generation of its session to begin in",
		Description: "Refused while a process that was started with an environment, or one that it has started, lives: it would be kept with its secrets. " +
			"A generation has one; repeated, it is the same. It lies on this host. It stays until it is removed, until the session has begun in a later one, " +
			"or until there are three later ones.",
	}, write.Long(), d.seal)
	route.Call(d.routes, huma.Operation{
		OperationID: "remove-runtime-checkpoint", Method: http.MethodDelete, Path: "/v1/runtime-checkpoints/{checkpoint}", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Remove a sandbox that was kept", Description: "Repeatable.",
	}, write.Long(), func(ctx context.Context, in *forgetIn) (*route.None, error) {
		return nil, d.desk.Forget(ctx, route.Project(ctx), in.Checkpoint)
	})
}

func (d *door) seal(ctx context.Context, in *sealIn) (*route.Reply[api.SandboxCheckpoint], error) {
	b := in.Body
	c, err := d.desk.Seal(ctx, in.by(ctx), b.RuntimeID, session.RuntimeSeal{
		Kind: session.CheckpointKind(b.Kind), WorkspaceRevision: b.WorkspaceRevision, HarnessVersion: b.HarnessVersion, RuntimeIdentity: b.RuntimeIdentity,
	})
	if err != nil {
		return nil, err
	}
	return &route.Reply[api.SandboxCheckpoint]{Body: api.SandboxCheckpoint{
		Provider: c.Provider, CheckpointID: c.CheckpointID, Kind: string(c.Kind), SourceRuntimeID: c.SourceRuntimeID, SessionID: c.SessionID,
		WorkGeneration: c.WorkGeneration, WorkspaceRevision: c.WorkspaceRevision, HarnessVersion: c.HarnessVersion, RuntimeIdentity: c.RuntimeIdentity,
	}}, nil
}

// from is a checkpoint in the words of sessions.
func from(c *api.SandboxCheckpoint) *session.RuntimeCheckpoint {
	if c == nil {
		return nil
	}
	return &session.RuntimeCheckpoint{
		Provider: c.Provider, CheckpointID: c.CheckpointID, Kind: session.CheckpointKind(c.Kind), SourceRuntimeID: c.SourceRuntimeID, SessionID: c.SessionID,
		WorkGeneration: c.WorkGeneration, WorkspaceRevision: c.WorkspaceRevision, HarnessVersion: c.HarnessVersion, RuntimeIdentity: c.RuntimeIdentity,
	}
}
