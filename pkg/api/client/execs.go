package client

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gorilla/websocket"

	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/api/client/link"
	"github.com/deskfork/deskfork/pkg/api/client/wire"
)

// Execs runs programs in the guest. They belong to the guest: losing the
// connection ends none of them.
type Execs struct{ d *Desktop }

// Run runs a program and waits for its end. An exit code other than 0 is not an
// error. It is not repeated when the connection breaks: give Exec.ID and ask
// with Get what became of it, or use Command.
func (e *Execs) Run(ctx context.Context, spec api.Exec) (api.ExecResult, error) {
	return wire.Fetch[api.ExecResult](ctx, e.d.c.server, wire.Call{Method: http.MethodPost, Path: e.d.path("/exec"), JSON: spec})
}

// Start starts a program and returns. When Exec.ID is empty one is made, so
// that a repeated request starts nothing twice.
func (e *Execs) Start(ctx context.Context, spec api.Exec) (api.ExecStatus, error) {
	if spec.ID == "" {
		spec.ID = "x" + strings.ToLower(rand.Text()[:11])
	}
	return wire.Fetch[api.ExecStatus](ctx, e.d.c.server, wire.Call{
		Method: http.MethodPost, Path: e.d.path("/execs"), JSON: spec, Keyed: true,
	})
}

// Command starts a program, copies its streams and waits for its end: Start,
// then Attach. It survives broken links.
func (e *Execs) Command(ctx context.Context, spec api.Exec, streams Streams) (api.ExecStatus, error) {
	spec.Stdin = streams.Stdin != nil
	started, err := e.Start(ctx, spec)
	if err != nil {
		return started, err
	}
	return e.Attach(ctx, started.ID, streams)
}

// Get describes an exec.
func (e *Execs) Get(ctx context.Context, id string) (api.ExecStatus, error) {
	return wire.Fetch[api.ExecStatus](ctx, e.d.c.server, wire.Call{Path: e.path(id)})
}

// List lists execs, running ones and those that ended.
func (e *Execs) List(ctx context.Context) ([]api.ExecStatus, error) {
	list, err := wire.Fetch[api.ExecList](ctx, e.d.c.server, wire.Call{Path: e.d.path("/execs")})
	return list.Execs, err
}

// Signal sends a signal, named without SIG, to the exec's process group.
func (e *Execs) Signal(ctx context.Context, id, signal string) error {
	return e.d.c.server.Run(ctx, wire.Call{Method: http.MethodPost, Path: e.path(id) + "/signal", JSON: api.Signal{Signal: signal}})
}

// Forget drops an exec with its output; one that runs is killed.
func (e *Execs) Forget(ctx context.Context, id string) error {
	return e.d.c.server.Run(ctx, wire.Call{Method: http.MethodDelete, Path: e.path(id)})
}

// Streams are the ends of an exec on this side.
type Streams = link.Streams

// FromKept as an offset of Streams asks for output from the start of what the
// guest still keeps.
const FromKept = link.FromKept

// Size is that of a terminal, in cells.
type Size = link.Size

// Notice tells of what happened to the link of an attached exec.
type Notice = link.Notice

// GapError says that output is missing: it was made while no link was up and
// was more than the guest keeps.
type GapError = link.GapError

// Attach copies the streams of an exec until it ends and says how. A broken
// link is dialled again for the client's patience and goes on at the very byte
// where it broke. Ending ctx detaches; the exec goes on. When output is missing
// the error is a *GapError, and all else was copied. Input, too, goes on at the
// very byte: what the guest does not have yet is kept and sent again.
func (e *Execs) Attach(ctx context.Context, id string, streams Streams) (api.ExecStatus, error) {
	c := e.d.c
	return link.Follow(ctx, link.Config{
		Fault: c.server.Fault, Transient: transient, Retries: c.server.Retries, Pause: c.server.Pause, Patience: c.patience,
		Dial: func(ctx context.Context, ask link.Ask) (*websocket.Conn, error) {
			q := url.Values{"out_from": {strconv.FormatInt(ask.Out, 10)}, "err_from": {strconv.FormatInt(ask.Err, 10)}}
			if ask.Stdin {
				q.Set("stdin", "true")
			}
			return c.server.Socket(ctx, e.path(id)+"/attach", q, api.SubprotocolExec)
		},
	}, streams)
}

func (e *Execs) path(id string) string { return e.d.path("/execs/" + wire.Seg(id)) }
