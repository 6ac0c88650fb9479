package sessions

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/deskfork/deskfork/internal/host/sessions/disk"
	"github.com/deskfork/deskfork/internal/host/sessions/egress"
	"github.com/deskfork/deskfork/internal/host/sessions/harness"
	"github.com/deskfork/deskfork/internal/host/sessions/input"
	"github.com/deskfork/deskfork/internal/host/sessions/output"
	"github.com/deskfork/deskfork/internal/host/sessions/provision"
	"github.com/deskfork/deskfork/internal/host/sessions/sandbox"
	"github.com/deskfork/deskfork/internal/host/workspaces"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/session"
	"github.com/deskfork/deskfork/pkg/session/packages"
	"github.com/deskfork/deskfork/pkg/session/transaction"
)

// do runs the command under the workspace's fence.
func (d *Desk) do(ctx context.Context, r *run) {
	cfg := d.cfg.Timing
	cfg.Name, cfg.Logger, cfg.Ports, cfg.Advertised = cmp.Or(d.cfg.Node, "host"), d.cfg.Logger.With("run", r.id), d.ports(ctx, r), nil
	host, err := transaction.New(cfg)
	if err != nil {
		d.end(r, session.Result{}, err)
		return
	}
	described, err := d.brings(ctx, r)
	if err != nil {
		d.end(r, session.Result{}, err)
		return
	}
	res, err := host.Run(ctx, transaction.Request{
		Scope: workspaces.Scope(r.project, r.req.Workspace, r.id), Profile: d.profile(r.req), Progress: r.step,
		Session: described, Access: access{d},
	})
	d.letGo(ctx, r)
	d.end(r, res, err)
	host.Wait()
}

// end writes down how a run ended before anybody hears of it.
func (d *Desk) end(r *run, res session.Result, err error) {
	last := r.end(res, err, d.cfg.Now())
	d.note(r)
	r.tape.Add(api.RunEvent{Type: api.RunEnd, Run: &last})
}

// profile is a request in the words of sessions.
func (d *Desk) profile(req api.StartRun) session.Profile {
	argv := req.Argv
	if req.Packages != nil { // the machine need not have the command before they are there
		argv = packages.Wrap(cmp.Or(d.cfg.Workspace, session.WorkspacePath), argv)
	}
	p := session.Profile{
		Workspace: session.Durable, WorkspaceOrder: []session.WorkspaceStrategy{session.CheckpointRestore},
		Driver: session.Driver{Lane: session.AMAWorker, Process: session.Process{
			Command: argv[0], Args: argv[1:], Cwd: req.Dir, Env: map[string]session.Secret{},
		}},
	}
	switch req.Keep {
	case api.KeepMachine:
		p.Workspace, p.WorkspaceOrder = session.Continuable, []session.WorkspaceStrategy{session.RetainedRuntime}
	case api.KeepNothing:
		p.Workspace, p.WorkspaceOrder = session.EphemeralWork, []session.WorkspaceStrategy{session.Ephemeral}
	case api.KeepCheckpoint:
	}
	if req.Outputs {
		p.Outputs = session.OutputsDurable
	}
	p.RuntimeCheckpoint = session.Need(req.RuntimeCheckpoint)
	if req.RuntimeCheckpoint == api.CheckpointPortable {
		p.RuntimeCheckpoint, p.PortableCheckpoint = session.Required, true
	}
	for name, value := range req.Env {
		p.Driver.Process.Env[name] = session.SecretOf(value)
	}
	return p
}

// ports are what a run works with.
func (d *Desk) ports(ctx context.Context, r *run) transaction.Ports {
	h := d.cfg.Host
	machine := sandbox.New(sandbox.Config{
		Host: h, Project: r.project, Node: d.cfg.Node, Suspends: d.cfg.Suspends, Seals: d.cfg.Suspends, Exports: d.vault != nil,
		Machine: api.CreateDesktop{Image: r.req.Image, Shape: r.req.Shape, Network: r.req.Network, WorkspaceMiB: r.req.WorkspaceMiB},
	})
	seals := &sandbox.Checkpoints{Sandbox: machine, Left: r.hasLeft, Vault: d.vault}
	c := harness.Config{
		Guest: h.Guest, Input: r.req.Input, Logger: d.cfg.Logger,
		Stdout: r.tape.Output(ctx, api.RunStdout), Stderr: r.tape.Output(ctx, api.RunStderr), Lost: r.lost,
	}
	if r.req.RuntimeCheckpoint != "" {
		c.Left = r.leaves
	}
	return transaction.Ports{
		Stores:  session.Stores{Fences: &fences{Fences: d.cfg.Stores.Fences, d: d, r: r, seals: seals}, Orphans: d.cfg.Stores.Orphans, Intents: d.cfg.Stores.Intents},
		Sandbox: machine,
		Workspaces: disk.New(disk.Config{
			Desk: h.Workspaces, Guest: h.Guest, Project: r.project, Name: r.req.Workspace, Retains: d.cfg.Suspends, Mount: d.cfg.Workspace,
		}),
		Outputs:            output.New(output.Config{Guest: h.Guest, Store: d.store, Mount: d.cfg.Outputs, Logger: d.cfg.Logger}),
		Harness:            worker{r: r, machine: machine, HarnessDriver: d.provisioned(r, harness.New(c))},
		RuntimeCheckpoints: seals,
		Inputs:             input.New(input.Config{Guest: h.Guest, Mount: d.cfg.Inputs, User: d.cfg.System.User}),
		Egress:             egress.None{},
	}
}

// provisioned has the packages of a run installed before its command begins.
func (d *Desk) provisioned(r *run, driver session.HarnessDriver) session.HarnessDriver {
	if r.req.Packages == nil {
		return driver
	}
	h := d.cfg.Host
	return provision.New(provision.Config{
		Installer: &d.install, List: packages.List(*r.req.Packages), Guest: h.Guest, Desktop: h.Desktop, Progress: r.step, System: d.cfg.System,
	}, driver)
}

// worker notes how the command ended.
type worker struct {
	session.HarnessDriver

	r       *run
	machine session.Sandbox
}

// How often, and in which intervals, a machine is asked for whose program ended in
// an unknown way: the host may not have noticed its end yet.
const (
	asks     = 10
	askAgain = 200 * time.Millisecond
)

// Run implements session.HarnessDriver.
func (w worker) Run(ctx context.Context, h session.HarnessRun) (session.Ending, error) {
	ending, err := w.HarnessDriver.Run(ctx, h)
	if err == nil && ending == session.EndingCompleted {
		w.r.mu.Lock()
		defer w.r.mu.Unlock()
		w.r.exited = true
	}
	if _, exited := errors.AsType[*harness.ExitError](err); err == nil || exited {
		return ending, err
	}
	for range asks {
		if gone := w.machine.Heartbeat(ctx, h.Tenure, h.Lease); errors.Is(gone, session.ErrSandboxLost) {
			return ending, errors.Join(gone, err)
		}
		t := time.NewTimer(askAgain)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ending, err
		}
	}
	return ending, err
}
