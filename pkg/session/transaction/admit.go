package transaction

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/plan"
)

// admit decides whether and how the request can be met; nothing is allocated.
func (h *Host) admit(ctx context.Context, req Request) (session.Plan, error) {
	if err := req.Scope.Validate(); err != nil {
		return session.Plan{}, fmt.Errorf("admit session: %w", err)
	}
	in := plan.Request{
		Profile: req.Profile, Advertised: h.Advertised,
		HasInputs: h.Ports.Inputs != nil, HasRuntimeCheckpoints: h.Ports.RuntimeCheckpoints != nil,
		Periodic: h.Checkpoints > 0,
	}
	if s := req.Session; s != nil {
		if s.ID != req.Scope.Session || s.EnvironmentID != req.Scope.Environment {
			return session.Plan{}, errors.New("admit session: the description is another session's than the scope")
		}
		in.Resources = s.Resources
	}
	ctx, cancel := context.WithTimeout(ctx, h.Admission)
	defer cancel()
	if err := h.ask(ctx, req, &in); err != nil {
		return session.Plan{}, fmt.Errorf("admit session: %w", err)
	}
	p, err := plan.Resolve(in)
	if err != nil {
		return session.Plan{}, fmt.Errorf("admit session: %w", err)
	}
	return p, nil
}

// ask fills in what the ports say now, all at once.
func (h *Host) ask(ctx context.Context, req Request, in *plan.Request) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		in.Live.Sandbox, err = await(h, ctx, func(ctx context.Context) (session.SandboxCapabilities, error) {
			return h.Ports.Sandbox.Capabilities(ctx, req.Scope)
		}, nil)
		return err
	})
	g.Go(func() (err error) {
		in.Live.Workspace, err = await(h, ctx, func(ctx context.Context) ([]session.WorkspaceStrategy, error) {
			return h.Ports.Workspaces.Strategies(ctx, req.Scope)
		}, nil)
		return err
	})
	g.Go(func() (err error) {
		in.Live.Outputs, err = await(h, ctx, func(ctx context.Context) ([]session.OutputCapability, error) {
			return h.Ports.Outputs.Strategies(ctx, req.Scope)
		}, nil)
		return err
	})
	g.Go(func() (err error) {
		in.Live.Harness, err = await(h, ctx, func(ctx context.Context) ([]session.Lane, error) {
			return h.Ports.Harness.Lanes(ctx, req.Scope)
		}, nil)
		return err
	})
	if h.Ports.Egress != nil && plan.EgressNeed(req.Profile, in.Resources) != session.Disabled {
		g.Go(func() error {
			c, err := await(h, ctx, func(ctx context.Context) (session.EgressCapabilities, error) {
				return h.Ports.Egress.Capabilities(ctx, req.Scope)
			}, nil)
			in.Egress = &c
			return err
		})
	}
	return g.Wait()
}
