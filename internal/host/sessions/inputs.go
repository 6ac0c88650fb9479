package sessions

import (
	"cmp"
	"context"
	"errors"
	"io"
	"path"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/internal/host/sessions/input"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
)

// Bounds of the look for inputs.
const (
	looks      = 16               // at the same time
	leaveLimit = 30 * time.Second // for all releases
)

// Input takes a file for runs of a project. When want is not empty it must be its
// hash.
func (d *Desk) Input(ctx context.Context, project, want string, body io.Reader) (api.Input, error) {
	return d.inputs.Put(ctx, project, want, body)
}

// brings describes what a run brings along; nil: nothing. What was uploaded is held
// until letGo is called.
func (d *Desk) brings(ctx context.Context, r *run) (*session.Description, error) {
	if len(r.req.Inputs) == 0 {
		return nil, nil
	}
	r.step("find inputs")
	scope := workspaces.Scope(r.project, r.req.Workspace, r.id)
	s := &session.Description{ID: scope.Session, EnvironmentID: scope.Environment, Resources: make([]session.Resource, len(r.req.Inputs))}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(looks)
	for i, in := range r.req.Inputs {
		g.Go(func() (err error) {
			if s.Resources[i], err = d.resource(gctx, r, in); err != nil {
				return &input.Error{Name: in.Path, Err: err}
			}
			return nil
		})
	}
	err := g.Wait()
	var total int64
	for _, res := range s.Resources {
		if res.Size != nil {
			total += *res.Size
		}
	}
	if err == nil && total > session.MaxInputBytes {
		err = api.Errorf(api.CodeTooLarge, "the inputs are %d bytes: at most %d", total, session.MaxInputBytes)
	}
	if err != nil {
		d.letGo(ctx, r)
		return nil, err
	}
	return s, nil
}

// resource is one input in the words of sessions.
func (d *Desk) resource(ctx context.Context, r *run, in api.RunInput) (session.Resource, error) {
	res := session.Resource{
		Type: session.ResourceFile, ID: in.ID, URL: in.URL, MountPath: path.Join(cmp.Or(d.cfg.Inputs, session.InputPath), in.Path),
		ContentHash: in.Hash, Size: in.Size,
	}
	if in.ID == "" {
		return res, nil
	}
	is, err := d.inputs.Take(ctx, r.project, in.ID, r.id)
	switch {
	case err != nil:
		return res, err
	case in.Hash != "" && in.Hash != is.Hash:
		return res, api.Errorf(api.CodePrecondition, "it is %s, not %s", is.Hash, in.Hash)
	case in.Size != nil && *in.Size != is.Size:
		return res, api.Errorf(api.CodePrecondition, "it has %d bytes, not %d", is.Size, *in.Size)
	}
	res.ContentHash, res.Size = is.Hash, &is.Size
	return res, nil
}

// letGo lets the inputs of a run go. What is not released ends by itself.
func (d *Desk) letGo(ctx context.Context, r *run) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveLimit)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(looks)
	for _, in := range r.req.Inputs {
		if in.ID != "" {
			g.Go(func() error { return d.inputs.Release(ctx, in.ID, r.id) })
		}
	}
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		d.cfg.Logger.Warn("inputs stay until their holds end", "run", r.id, "err", err)
	}
}

// access opens inputs wherever they are.
type access struct{ d *Desk }

// OpenFile implements session.InputAccess.
func (a access) OpenFile(ctx context.Context, r session.Resource) (io.ReadCloser, error) {
	if r.URL != "" {
		return a.d.cfg.Web.OpenFile(ctx, r)
	}
	return a.d.inputs.OpenFile(ctx, r)
}
