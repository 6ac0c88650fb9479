package sandboxes

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/leases"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// defaultTTL is how long a lease holds that names no time.
const defaultTTL = 90 * time.Second

// Desk is what the routes need of the host; *leases.Desk is one.
type Desk interface {
	Create(ctx context.Context, project string, req leases.Request) (leases.View, error)
	Get(ctx context.Context, project, runtime string) (leases.View, error)
	Renew(ctx context.Context, by leases.Caller, runtime string, ttl time.Duration) (leases.View, error)
	Suspend(ctx context.Context, by leases.Caller, runtime string) (leases.View, error)
	Ender
	Reacher
	Keeper
}

// Ender ends machines.
type Ender interface {
	End(ctx context.Context, by leases.Caller, runtime string, reason session.Reason) error
	Reap(ctx context.Context, by leases.Caller, scope session.Scope, l session.Lease, reason session.Reason) error
}

// Reacher reaches into the guests of machines, and describes them.
type Reacher interface {
	Use(ctx context.Context, by leases.Caller, runtime string) (*live.Desktop, error)
	Capabilities(ctx context.Context, project string) (session.SandboxCapabilities, error)
	Provider() string
	Version() string
}

var _ Desk = (*leases.Desk)(nil)

// door is the routes.
type door struct {
	routes *route.Table
	desk   Desk
	beat   time.Duration
	open   sockets
}

// Register registers the routes. beat is the pause between signs of life on idle
// WebSockets.
func Register(t *route.Table, desk Desk, beat time.Duration) {
	d := &door{routes: t, desk: desk, beat: beat}
	d.registerLife()
	d.registerEnd()
	d.registerCheckpoints()
	d.registerFiles()
	d.registerExec()
	d.registerProcesses()
	t.Schema(api.ProcessMessage{})
}

var (
	read  = route.Read.Nested()
	write = route.Write.Nested()
	tags  = []string{"sandboxes"}
)

// Fenced says under which generation a call is made. Like the other In types it is
// exported for huma, which reads no embedded struct that is not.
type Fenced struct {
	Generation int64 `header:"X-Fence-Generation" minimum:"0" doc:"Under which the call is made; one that is older than the newest seen is refused"`
}

// InSandbox names a sandbox.
type InSandbox struct {
	Fenced

	Sandbox string `path:"sandbox" maxLength:"256" doc:"Runtime id"`
}

func (f Fenced) by(ctx context.Context) leases.Caller {
	return leases.Caller{Project: route.Project(ctx), Generation: f.Generation}
}

type createIn struct {
	Fenced

	Body api.CreateSandbox
}

type createOut struct {
	Location string `header:"Location"`
	Body     api.Sandbox
}

type renewIn struct {
	InSandbox

	Body api.RenewLease
}

type suspendIn struct {
	InSandbox

	Body api.SuspendSandbox
}

func (d *door) registerLife() {
	route.Call(d.routes, huma.Operation{
		OperationID: "runtime-descriptor", Method: http.MethodGet, Path: "/v1/descriptor", Tags: tags,
		Summary: "What sandboxes of this host can do",
	}, read, d.describe)
	route.Call(d.routes, huma.Operation{
		OperationID: "create-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes", Tags: tags, DefaultStatus: http.StatusCreated,
		Summary: "Lease a machine for a generation of a scope",
		Description: "Answers when the machine can be used. Repeated for the same scope and generation it is the same machine. A generation older than " +
			"the newest one seen is refused with stale_generation. A caller that goes away gets nothing, and nothing is left. " +
			"Who takes a newer generation ends the machines of older ones, except suspended ones.",
	}, write.Long(), d.create)
	route.Call(d.routes, huma.Operation{
		OperationID: "get-sandbox", Method: http.MethodGet, Path: "/v1/sandboxes/{sandbox}", Tags: tags,
		Summary: "Describe a sandbox", Description: "One that is gone is not_found.",
	}, read, func(ctx context.Context, in *InSandbox) (*route.Reply[api.Sandbox], error) {
		v, err := d.desk.Get(ctx, route.Project(ctx), in.Sandbox)
		return &route.Reply[api.Sandbox]{Body: view(v)}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "renew-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{sandbox}/lease", Tags: tags,
		Summary:     "Renew the lease, and ask whether the machine lives",
		Description: "404 and 409 mean that it is lost. A machine whose lease runs out is ended.",
	}, write, func(ctx context.Context, in *renewIn) (*route.Reply[api.Sandbox], error) {
		v, err := d.desk.Renew(ctx, in.by(ctx), in.Sandbox, ttl(in.Body.TTLMS))
		return &route.Reply[api.Sandbox]{Body: view(v)}, err
	})
	route.Call(d.routes, huma.Operation{
		OperationID: "suspend-sandbox", Method: http.MethodPost, Path: "/v1/sandboxes/{sandbox}/suspend", Tags: tags,
		Summary:     "Stop a sandbox so that a later generation of its session can go on from it",
		Description: "The handle names the incarnation that it became; it stays until it is ended, or until the session has gone on from a later one. Repeatable.",
	}, write.Long(), d.suspend)
}

func (d *door) describe(ctx context.Context, _ *struct{}) (*route.Reply[api.RuntimeDescriptor], error) {
	c, err := d.desk.Capabilities(ctx, route.Project(ctx))
	if err != nil {
		return nil, err
	}
	out := api.RuntimeDescriptor{
		Provider: d.desk.Provider(), Version: d.desk.Version(), Placements: []string{"driver_service"},
		Capabilities: api.RuntimeCapabilities{
			Sandbox:   api.RuntimeSandbox{SuspendResume: "unsupported", HardTerminate: "best_effort", RuntimeCheckpoints: []string{}},
			Workspace: []string{string(session.Ephemeral)}, Outputs: []string{string(session.OutputsCollect)},
			Harness: []string{string(session.AMAWorker), string(session.Supervised)},
		},
		CredentialEgress: api.RuntimeEgress{Enforcement: string(session.EgressUnsupported)},
	}
	if c.SuspendResume {
		out.Capabilities.Sandbox.SuspendResume = "supported"
		out.Capabilities.Workspace = append(out.Capabilities.Workspace, string(session.RetainedRuntime))
	}
	for _, kind := range c.RuntimeCheckpoints {
		out.Capabilities.Sandbox.RuntimeCheckpoints = append(out.Capabilities.Sandbox.RuntimeCheckpoints, string(kind))
	}
	if c.HardTerminate {
		out.Capabilities.Sandbox.HardTerminate = "supported"
	}
	return &route.Reply[api.RuntimeDescriptor]{Body: out}, nil
}

func (d *door) create(ctx context.Context, in *createIn) (*createOut, error) {
	b := in.Body
	if in.Generation != 0 && in.Generation != b.Generation {
		return nil, api.Errorf(api.CodeInvalid, "the header names generation %d and the body %d", in.Generation, b.Generation)
	}
	req := leases.Request{
		Tenure:   session.Tenure{Scope: scope(b.Scope), Owner: cmp.Or(b.Owner, "driver"), Generation: b.Generation},
		Spec:     leases.Spec{Image: b.Artifact.Reference, Digest: b.Artifact.Digest, Shape: b.Resources.Shape},
		Strategy: session.WorkspaceStrategy(cmp.Or(b.Workspace.Strategy, string(session.Ephemeral))),
		Binding:  b.Workspace.BindingID, From: from(b.From), TTL: ttl(b.TTLMS),
	}
	if h := b.Workspace.Restore; h != nil {
		switch {
		case h.Provider != d.desk.Provider():
			return nil, session.ErrForeign
		case h.Scope != "runtime":
			return nil, api.Errorf(api.CodeUnsupported, "portable checkpoints are not restored here")
		case req.Strategy != session.RetainedRuntime:
			return nil, api.Errorf(api.CodeInvalid, "a suspended sandbox is gone on from under the strategy %s", session.RetainedRuntime)
		}
		req.Resume = h.CheckpointID
	}
	v, err := d.desk.Create(ctx, route.Project(ctx), req)
	if err != nil {
		return nil, err
	}
	return &createOut{Location: "/v1/sandboxes/" + url.PathEscape(v.Lease.RuntimeID), Body: view(v)}, nil
}

func (d *door) suspend(ctx context.Context, in *suspendIn) (*route.Reply[api.SandboxHandle], error) {
	v, err := d.desk.Suspend(ctx, in.by(ctx), in.Sandbox)
	if err != nil {
		return nil, err
	}
	return &route.Reply[api.SandboxHandle]{Body: api.SandboxHandle{
		Provider: v.Lease.Provider, CheckpointID: v.Lease.RuntimeID, SourceRuntimeID: in.Sandbox,
		Kind: cmp.Or(in.Body.Kind, "memory"), Scope: "runtime", Metadata: v.Lease.Metadata,
	}}, nil
}

func ttl(ms int64) time.Duration {
	return cmp.Or(time.Duration(ms)*time.Millisecond, defaultTTL)
}

func scope(s api.SandboxScope) session.Scope {
	return session.Scope{Workspace: s.Workspace, Environment: s.Environment, Session: s.Session, Work: s.Work}
}

func view(v leases.View) api.Sandbox {
	s := v.Tenure.Scope
	out := api.Sandbox{
		RuntimeID: v.Lease.RuntimeID, Incarnation: v.Lease.RuntimeID, State: string(v.State), Generation: v.Tenure.Generation,
		Scope: api.SandboxScope{Workspace: s.Workspace, Environment: s.Environment, Session: s.Session, Work: s.Work},
		Lease: api.SandboxLease{Provider: v.Lease.Provider, RuntimeID: v.Lease.RuntimeID, Metadata: v.Lease.Metadata},
	}
	if !v.Expires.IsZero() {
		out.Expires = &v.Expires
	}
	return out
}
