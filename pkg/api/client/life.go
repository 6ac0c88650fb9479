package client

import (
	"context"
	"net/http"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// handle names a desktop at a server and has the verbs of its life.
type handle struct {
	c   *Client
	ref string
}

func (d *handle) path(tail string) string { return "/v1/desktops/" + wire.Seg(d.ref) + tail }

// Ref is the id or name that the handle was made with.
func (d *handle) Ref() string { return d.ref }

// Fork makes children of the desktop, all of the same instant: its programs,
// windows, files and clipboard go on in each of them, and in the desktop itself.
// Without Until it returns when the children are admitted.
func (d *handle) Fork(ctx context.Context, spec api.Fork, opts ...CreateOption) ([]*Desktop, error) {
	list, err := wire.Fetch[api.DesktopList](ctx, d.c.server, wire.Call{
		Method: http.MethodPost, Path: d.path("/fork"), Query: values(opts), JSON: spec, Keyed: true,
	})
	if err != nil {
		return nil, err
	}
	children := make([]*Desktop, 0, len(list.Desktops))
	for _, info := range list.Desktops {
		children = append(children, newDesktop(d.c, info.ID, info))
	}
	return children, nil
}

// Snapshot keeps the present instant of the desktop under a name. The desktop
// goes on.
func (d *handle) Snapshot(ctx context.Context, name string) (api.Snapshot, error) {
	return wire.Fetch[api.Snapshot](ctx, d.c.server, wire.Call{
		Method: http.MethodPost, Path: d.path("/snapshots"), JSON: api.CreateSnapshot{Name: name}, Keyed: true,
	})
}

// Pause stops the vCPUs; what runs stands still, in memory. A paused desktop
// may be paused again.
func (d *handle) Pause(ctx context.Context) (api.Desktop, error) { return d.turn(ctx, "/pause") }

// Suspend moves the memory to disk and ends the machine's process. A suspended
// desktop may be suspended again.
func (d *handle) Suspend(ctx context.Context) (api.Desktop, error) { return d.turn(ctx, "/suspend") }

// Resume lets a paused or suspended desktop go on where it stood. One that runs
// is left alone.
func (d *handle) Resume(ctx context.Context) (api.Desktop, error) { return d.turn(ctx, "/resume") }

func (d *handle) turn(ctx context.Context, verb string) (api.Desktop, error) {
	return wire.Fetch[api.Desktop](ctx, d.c.server, wire.Call{Method: http.MethodPost, Path: d.path(verb), Same: true})
}

// Restore puts the desktop back to a snapshot, named by name or id. It keeps its
// id and gets a new incarnation; what it was until then is gone.
func (d *handle) Restore(ctx context.Context, snapshot string) (api.Desktop, error) {
	return wire.Fetch[api.Desktop](ctx, d.c.server, wire.Call{
		Method: http.MethodPost, Path: d.path("/restore"), JSON: api.Restore{Snapshot: snapshot},
	})
}

// SetPolicy replaces the rules by which the desktop ends or rests by itself.
func (d *handle) SetPolicy(ctx context.Context, policy api.Policy) (api.Desktop, error) {
	return wire.Fetch[api.Desktop](ctx, d.c.server, wire.Call{Method: http.MethodPut, Path: d.path("/policy"), JSON: policy, Same: true})
}
