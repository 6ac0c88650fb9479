package desktops

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/fault"
	"github.com/deskfork/deskfork/internal/host/ticket"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/pkg/api"
)

type forkIn struct {
	route.InDesktop

	Key     string `header:"Idempotency-Key" doc:"Makes the call repeatable within 24 hours"`
	Wait    string `query:"wait" enum:"machine,link,handshake,session,drawn,ready" doc:"Answer only when all children have reached this stage"`
	Timeout string `query:"timeout" doc:"Of the wait, e.g. 120s; default 5m"`
	Body    api.Fork
}

func (d *desk) registerFork() {
	route.Call(d.routes, huma.Operation{
		OperationID: "fork-desktop", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/fork", Tags: []string{"desktops"},
		Summary: "Fork a desktop: make children that go on from where it stands", DefaultStatus: http.StatusCreated,
		Description: "All children are of one instant; windows, running programs, execs under their ids, files and the clipboard are in each. " +
			"The desktop itself goes on. Answers when the instant is sealed and the children are admitted, or when all of them have reached " +
			"the stage named by wait. When one fails to, the problem is its failure and names all of them; they stay.",
	}, route.Write.Long().ForProject(ticket.Control), d.fork)
}

func (d *desk) fork(ctx context.Context, in *forkIn) (*route.Reply[api.DesktopList], error) {
	if _, err := param.Wait(in.Timeout, defaultWait); err != nil {
		return nil, err
	}
	children, err := d.host.Fork(ctx, route.Project(ctx), in.Desktop, in.Body, in.Key)
	if err != nil {
		return nil, err
	}
	if in.Wait != "" {
		if children, err = d.waitAll(ctx, children, in.Wait, in.Timeout); err != nil {
			return nil, err
		}
	}
	return &route.Reply[api.DesktopList]{Body: api.DesktopList{Desktops: children}}, nil
}

// waitAll waits for each of a desktop's children, side by side. The error is the
// first child's that has one, and names them all: they are there.
func (d *desk) waitAll(ctx context.Context, children []api.Desktop, stage, timeout string) ([]api.Desktop, error) {
	up, errs := make([]api.Desktop, len(children)), make([]error, len(children))
	var all sync.WaitGroup
	for i, child := range children {
		all.Go(func() { up[i], errs[i] = d.wait(ctx, child.ID, stage, timeout) })
	}
	all.Wait()
	ids := make([]string, 0, len(children))
	for _, child := range children {
		ids = append(ids, child.ID)
	}
	for i, err := range errs {
		if err == nil {
			continue
		}
		e := *fault.From(err)
		e.Detail = "child " + ids[i] + ": " + e.Detail
		e.Hint = strings.TrimPrefix(e.Hint+"; the children are "+strings.Join(ids, ", "), "; ")
		return nil, &e
	}
	return up, nil
}
