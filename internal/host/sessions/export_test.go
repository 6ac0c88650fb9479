package sessions

import (
	"context"

	"github.com/deskfork/deskfork/internal/host/sessions/tape"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/transaction"
)

// RunBy runs a request by a profile that the API cannot ask for, with the ports that
// every run has.
func (d *Desk) RunBy(ctx context.Context, project string, req api.StartRun, change func(*session.Profile)) (session.Result, error) {
	r := &run{id: "rtest", project: project, req: req, tape: tape.New(d.cfg.Now)}
	cfg := d.cfg.Timing
	cfg.Name, cfg.Ports = "host", d.ports(ctx, r)
	host, err := transaction.New(cfg)
	if err != nil {
		return session.Result{}, err
	}
	defer host.Wait()
	p := d.profile(req)
	change(&p)
	return host.Run(ctx, transaction.Request{Scope: workspaces.Scope(project, req.Workspace, r.id), Profile: p})
}
