package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/deskfork/deskfork/internal/host/control"
	"github.com/deskfork/deskfork/internal/host/live"
	"github.com/deskfork/deskfork/internal/server/gate"
	"github.com/deskfork/deskfork/internal/server/param"
	"github.com/deskfork/deskfork/internal/server/route"
	"github.com/deskfork/deskfork/internal/server/view"
	"github.com/deskfork/deskfork/pkg/api"
	"github.com/deskfork/deskfork/pkg/guest"
)

// maxInput bounds a batch of input, in bytes: text is most of it.
const maxInput = 4 << 20

// InLease says under which control lease a call is made.
type InLease struct {
	route.InDesktop

	Holder string `header:"Deskfork-Holder" maxLength:"128" doc:"Who sends; default: the token"`
	Epoch  uint64 `header:"Deskfork-Epoch" doc:"Of the control lease; 0: the present one"`
	Wait   string `header:"Deskfork-Wait" maxLength:"32" doc:"How long to wait for the lease while somebody else holds it, e.g. 30s"`
	Query  string `query:"wait" maxLength:"32" doc:"The same"`
}

type inputIn struct {
	InLease

	Body api.InputBatch
}

type windowIn struct {
	InLease

	Window uint64 `path:"window"`
	Body   api.WindowOp
}

type launchIn struct {
	InLease

	Body api.Launch
}

func (s *Server) registerControl() {
	route.Call(s.routes, huma.Operation{
		OperationID: "input", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/input", Tags: []string{"screen"},
		Summary:     "Play input actions in order",
		Description: "Ends at the first action that fails; the reply then carries its error. A problem says that nothing was tried.",
	}, route.Write.Long().Size(maxInput), s.input)
	route.Call(s.routes, huma.Operation{
		OperationID: "pointer", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/pointer", Tags: []string{"screen"},
		Summary: "Where the pointer is",
	}, route.Read, func(ctx context.Context, in *route.InDesktop) (*route.Reply[api.Point], error) {
		l, err := s.host.Guest(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		p, err := l.Session.Pointer(ctx)
		return &route.Reply[api.Point]{Body: api.Point{X: p.X, Y: p.Y}}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "list-windows", Method: http.MethodGet, Path: "/v1/desktops/{desktop}/windows", Tags: []string{"windows"},
		Summary: "List top-level windows, bottom of the stack first",
	}, route.Read, func(ctx context.Context, in *route.InDesktop) (*route.Reply[api.WindowList], error) {
		l, err := s.host.Guest(ctx, route.Project(ctx), in.Desktop)
		if err != nil {
			return nil, err
		}
		list, err := l.Windows.List(ctx)
		out := api.WindowList{Windows: make([]api.Window, 0, len(list))}
		for _, w := range list {
			out.Windows = append(out.Windows, api.Window(w))
		}
		return &route.Reply[api.WindowList]{Body: out}, err
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "change-window", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/windows/{window}", Tags: []string{"windows"},
		Summary: "Focus, move, resize, close, maximize, minimize or restore a window", DefaultStatus: http.StatusNoContent,
	}, route.Write, func(ctx context.Context, in *windowIn) (*route.None, error) {
		op := in.Body
		return nil, s.control(ctx, in.InLease, func(ctx context.Context, l *live.Desktop) error {
			return l.Windows.Do(ctx, guest.WindowOp{
				ID: in.Window, Op: op.Op, X: op.X, Y: op.Y, Width: op.Width, Height: op.Height,
			})
		})
	})
	route.Call(s.routes, huma.Operation{
		OperationID: "launch", Method: http.MethodPost, Path: "/v1/desktops/{desktop}/launch", Tags: []string{"windows"},
		Summary: "Start a program, or open a URL, in the desktop's session",
	}, route.Write, s.launch)
}

func (s *Server) input(ctx context.Context, in *inputIn) (*route.Reply[api.InputReply], error) {
	lease := in.InLease
	lease.Holder = cmp.Or(in.Body.Holder, lease.Holder)
	if in.Body.Epoch != 0 {
		lease.Epoch = in.Body.Epoch
	}
	var out api.InputReply
	err := s.control(ctx, lease, func(ctx context.Context, l *live.Desktop) (err error) {
		s.tell(ctx, lease, in.Body)
		out, err = l.Input.Do(ctx, in.Body)
		return err
	})
	if err == nil && out.Results == nil {
		out.Results = []api.ActionResult{}
	}
	return &route.Reply[api.InputReply]{Body: out}, err
}

func (s *Server) launch(ctx context.Context, in *launchIn) (*route.Reply[api.Launched], error) {
	if (len(in.Body.Argv) > 0) == (in.Body.URL != "") {
		return nil, api.Errorf(api.CodeInvalid, "want either argv or url")
	}
	var pid int
	err := s.control(ctx, in.InLease, func(ctx context.Context, l *live.Desktop) (err error) {
		pid, err = l.Session.Launch(ctx, guest.Launch{Argv: in.Body.Argv, URL: in.Body.URL, Dir: in.Body.Dir, Env: in.Body.Env})
		return err
	})
	return &route.Reply[api.Launched]{Body: api.Launched{PID: pid}}, err
}

// control makes a call under the control lease.
func (s *Server) control(ctx context.Context, in InLease, do func(context.Context, *live.Desktop) error) error {
	wait, err := param.Wait(cmp.Or(in.Query, in.Wait), 0)
	if err != nil {
		return err
	}
	return s.under(ctx, in.Desktop, control.Call{Holder: view.Holder(ctx, in.Holder, api.ControlAgent), Epoch: in.Epoch, Wait: wait}, do)
}

func (s *Server) under(ctx context.Context, ref string, by control.Call, do func(context.Context, *live.Desktop) error) error {
	cctx, l, leave, err := s.host.Controls.Use(ctx, route.Project(ctx), ref, by)
	if err != nil {
		return err
	}
	defer leave()
	return gate.Why(cctx, do(cctx, l))
}
